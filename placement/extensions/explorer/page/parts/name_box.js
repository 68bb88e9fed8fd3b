/** The box in the header that goes to the tree of a provider, and completes its name. The key `/` leads to it. */

import { h, refill } from "../dom.js";
import { cloud } from "../model/cloud.js";
import { address, go } from "../router.js";
import { session } from "../session.js";

const MOST = 20;
const UUID = /^[\da-f]{8}-?([\da-f]{4}-?){3}[\da-f]{12}$/i;

/** The box; one for all views. */
export class NameBox extends HTMLElement {
  #list = h("datalist", { id: "provider-names" });
  #input = /** @type {HTMLInputElement} */ (h("input", {
    type: "search", name: "provider", required: true, autocomplete: "off", spellcheck: "false",
    list: "provider-names", placeholder: "Provider  ( / )", "aria-label": "Name or UUID of a provider",
    "aria-keyshortcuts": "/", title: "Name or UUID of a provider; the key / leads here",
    onfocus: () => void this.#read(), oninput: () => this.#complete(),
  }));

  connectedCallback() {
    this.append(h("form", { role: "search", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const wanted = this.#input.value.trim();
      go(UUID.test(wanted) ? address("tree", wanted) : address("tree", "", { name: wanted }));
    } }, this.#input, this.#list));
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.#input.focus();
      this.#input.select();
    });
  }

  /** Read the trees, if no view has read them all; whoever may not has a box without completion. */
  async #read() {
    if (!session.token || cloud().whole) return this.#complete();
    const running = new AbortController();
    await cloud().refresh(running.signal, () => {}).catch(() => undefined);
    return this.#complete();
  }

  #complete() {
    const names = providerNames(this.#input.value.trim(), MOST);
    refill(this.#list, names.map((value) => h("option", { value })));
  }
}

/**
 * The names of providers that have a text in them, those that begin with it first.
 *
 * @param {string} text
 * @param {number} most
 * @returns {string[]}
 */
export function providerNames(text, most) {
  const wanted = text.toLowerCase();
  /** @type {string[]} */
  const first = [];
  /** @type {string[]} */
  const later = [];
  for (const row of cloud().rows) {
    if (!row.names.toLowerCase().includes(wanted)) continue;
    for (const name of row.names.split("\n")) {
      const at = name.toLowerCase().indexOf(wanted);
      if (at === 0) first.push(name);
      else if (at > 0 && later.length < most) later.push(name);
    }
    if (first.length >= most) break;
  }
  return [...first, ...later].slice(0, most);
}

customElements.define("name-box", NameBox);
