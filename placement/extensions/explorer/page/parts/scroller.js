/** A box in which a wide table or drawing scrolls sideways, and which says that it does. */

import { h } from "../dom.js";

/**
 * @param {string} name for screen readers
 * @param {HTMLElement | SVGElement} wide
 */
export function scroller(name, wide) {
  const box = h("div.scroller", { tabindex: "0", role: "group", "aria-label": name }, wide);
  const place = h("div.scrolls", {}, box, h("span.scroll-hint", { "aria-hidden": "true" }, "more →"));
  const show = () => {
    const most = box.scrollWidth - box.clientWidth;
    // A pixel of rounding is nothing to scroll to.
    place.classList.toggle("more-left", box.scrollLeft > 1);
    place.classList.toggle("more-right", box.scrollLeft < most - 1);
  };
  box.addEventListener("scroll", show, { passive: true });
  const sizes = new ResizeObserver(show);
  sizes.observe(box);
  sizes.observe(wide);
  return place;
}
