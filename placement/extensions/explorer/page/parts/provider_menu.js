/** What can be done with a provider, the same wherever one is drawn. */

import { copyText, h, refill } from "../dom.js";
import { lastQuery } from "../model/last_query.js";
import { address, currentPlace, readable } from "../router.js";

/** @typedef {{uuid: string, name: string}} Named */

/** One menu for the page: it opens over whatever scrolls, where it was asked for. */
const menu = h("ul.menu", { popover: "auto", id: "provider-menu" });

/**
 * The name of a provider as a link, with its menu.
 *
 * @param {Named} provider
 * @param {string} [key] keeps the focus over a refresh
 */
export function providerName(provider, key = provider.uuid) {
  return h("span.provider-name", {},
    h("a", { href: address("tree", provider.uuid), "data-key": `link ${key}` }, provider.name || provider.uuid),
    menuButton(provider, key));
}

/**
 * @param {Named} provider
 * @param {string} key
 */
export function menuButton(provider, key) {
  const button = h("button.more", {
    type: "button", "data-key": `menu ${key}`, "aria-haspopup": "true", "aria-expanded": "false",
    "aria-label": `What to do with ${provider.name || provider.uuid}`,
    onclick: () => open(provider, button),
  }, "⋯");
  return button;
}

/** Whether the menu is open, so that its provider must stay drawn. */
export function menuIsOpen() {
  return menu.matches(":popover-open");
}

/**
 * @param {Named} provider
 * @param {HTMLElement} button
 */
function open(provider, button) {
  if (!menu.isConnected) document.body.append(menu);
  const copy = h("button", { type: "button", onclick: async () => {
    copy.textContent = await copyText(provider.uuid) ? "Copied" : provider.uuid;
  } }, "Copy its UUID");
  refill(menu, [
    h("a", { href: address("tree", provider.uuid) }, "Look at its tree"),
    h("a", { href: about(provider, "search", "about") }, "Why not this host?"),
    h("a", { href: about(provider, "capacity", "drain") }, "What if it were drained?"),
    h("a", { href: address("plan", "", { empty: provider.uuid }) }, "Empty this host"),
    copy,
  ].map((item) => h("li", {}, item)));
  menu.addEventListener("toggle", (event) => {
    const opened = /** @type {ToggleEvent} */ (event).newState === "open";
    button.setAttribute("aria-expanded", String(opened));
  }, { once: false, signal: untilNext() });
  menu.showPopover();
  const at = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + 4 + height < innerHeight;
  menu.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
  menu.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`;
  menu.querySelector("a")?.focus();
}

let listening = new AbortController();

/** Removes the listeners of the last button. */
function untilNext() {
  listening.abort();
  listening = new AbortController();
  return listening.signal;
}

/**
 * The question of the view that is open, or the last one that was asked, about a provider.
 *
 * @param {Named} provider
 * @param {"search" | "capacity"} view
 * @param {string} param
 */
function about(provider, view, param) {
  const place = currentPlace();
  const asking = place.view === "search" || place.view === "capacity";
  const question = new URLSearchParams(asking ? readable(place.params) : lastQuery());
  for (const name of ["about", "drain", "by"]) question.delete(name);
  question.set(param, provider.uuid);
  return address(view, "", question);
}

/** Close the menu when what is below it moves away, or another view comes. */
export function closeMenuOnMove() {
  const close = () => { if (menuIsOpen()) menu.hidePopover(); };
  addEventListener("hashchange", close);
  addEventListener("scroll", close, { capture: true, passive: true });
}
