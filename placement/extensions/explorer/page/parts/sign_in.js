/** The card that asks for a token. */

import { h } from "../dom.js";
import { session } from "../session.js";

/**
 * @param {string} title
 * @param {boolean} alone whether there is nothing else on the page
 * @param {() => void} done
 */
export function signIn(title, alone, done) {
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "password", name: "token", id: "token", autocomplete: "off", spellcheck: "false",
    required: true, "aria-describedby": "token-help" }));
  const form = h("form.sign-in", {
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      session.begin(input.value);
      done();
    },
  },
  h(alone ? "h1" : "h2", {}, title),
  h("label", { for: "token" }, "Token"),
  h("div.row", {}, input, h("button.primary", { type: "submit" }, "Go on")),
  h("p", { id: "token-help" }, "In a cloud with Keystone: ",
    h("code", {}, "openstack token issue -f value -c id"), ". In a trial: ", h("code", {}, "admin"),
    ". This tab keeps it until it is closed, also through a reload; it is stored nowhere else."));
  queueMicrotask(() => input.focus());
  return form;
}
