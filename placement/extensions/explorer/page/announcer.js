/** Short sentences for screen readers, when something has changed. */

import { h } from "./dom.js";

const region = h("p.spoken", { role: "status" });

/**
 * Say a sentence; one that was just said is not repeated.
 *
 * @param {string} sentence
 */
export function announce(sentence) {
  if (!region.isConnected) document.body.append(region);
  if (region.textContent !== sentence) region.textContent = sentence;
}
