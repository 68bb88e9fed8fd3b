/** The form for a question: groups as cards, and the rules between them. */

import { h, refill } from "../dom.js";
import { asksSomething, emptyGroup } from "../model/query.js";
import { groupCard } from "./group_card.js";

/** @typedef {import("../model/query.js").Query} Query */
/** @typedef {import("../model/vocabulary.js").Vocabulary} Vocabulary */

/** The form; `show` gives it a query, and it answers with the event `ask`. */
export class RequestForm extends HTMLElement {
  /** @type {Query} */
  query = { groups: [emptyGroup()], policy: "", sameSubtree: [], rootRequired: "", limit: "" };
  submitLabel = "Search";
  #form = h("form.request-form", {
    onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      if (asksSomething(this.query)) this.dispatchEvent(new CustomEvent("ask", { detail: this.query }));
      else this.#sayWhatIsMissing();
    },
  });
  #missing = h("p.missing", { role: "alert" });
  #lists = h("div", { hidden: true });

  connectedCallback() {
    if (!this.#form.isConnected) this.append(this.#form, this.#lists);
  }

  /** @param {Query} query */
  show(query) {
    this.query = structuredClone(query);
    if (!this.query.groups.length) {
      const group = emptyGroup();
      group.amounts.push({ name: "VCPU", amount: "" }, { name: "MEMORY_MB", amount: "" });
      this.query.groups.push(group);
    }
    this.#draw();
  }

  /** @param {Vocabulary} words */
  suggest({ classes, traits }) {
    const list = (/** @type {string} */ id, /** @type {string[]} */ names) => h("datalist", { id },
      names.map((value) => h("option", { value })));
    refill(this.#lists, list("known-classes", classes), list("known-traits", traits));
  }

  #draw() {
    const { groups } = this.query;
    refill(this.#missing);
    refill(this.#form,
      groups.map((group, index) => groupCard(group, index, {
        redraw: () => this.#draw(),
        remove: groups.length > 1 ? () => this.#removeGroup(index) : null,
      })),
      h("div.row", {}, h("button", { type: "button", "data-key": "add group",
        onclick: () => this.#addGroup() }, "+ Group"),
      h("button.primary", { type: "submit", "data-key": "submit" }, this.submitLabel)),
      this.#missing,
      groups.some((it) => it.suffix) && this.#rules());
  }

  #sayWhatIsMissing() {
    refill(this.#missing, "Give at least one class an amount.");
    const empty = [...this.querySelectorAll("input.name, input.number")].find(
      (it) => it instanceof HTMLInputElement && !it.value);
    if (empty instanceof HTMLElement) empty.focus();
  }

  #addGroup() {
    const { groups } = this.query;
    const taken = new Set(groups.map((it) => it.suffix));
    let number = 1;
    while (taken.has(`_${number}`)) number += 1;
    const group = emptyGroup(`_${number}`);
    group.amounts.push({ name: "", amount: "1" });
    groups.push(group);
    this.#draw();
    /** @type {HTMLElement | null} */
    const field = this.querySelector(`[data-key="amount ${groups.length - 1} 0 name"]`);
    field?.focus();
  }

  /** @param {number} index */
  #removeGroup(index) {
    const [gone] = this.query.groups.splice(index, 1);
    this.query.sameSubtree = this.query.sameSubtree
      .map((it) => it.split(",").filter((suffix) => suffix !== gone.suffix).join(","))
      .filter(Boolean);
    this.#draw();
  }

  #rules() {
    const { query } = this;
    const policy = (/** @type {string} */ value, /** @type {string} */ title) => h("label.radio", {},
      h("input", { type: "radio", name: "policy", value, "data-key": `policy ${value}`,
        checked: (query.policy || "none") === value,
        onchange: () => { query.policy = value; } }), title);
    const text = (/** @type {string} */ title, /** @type {string} */ value,
      /** @type {(value: string) => void} */ set, /** @type {string} */ list = "") => h("label", {},
      h("span", {}, title), h("input", { value, list: list || null, autocomplete: "off",
        "data-key": `rule ${title}`, spellcheck: "false",
        oninput: (/** @type {Event} */ event) => set(
          /** @type {HTMLInputElement} */ (event.target).value.replace(/\s/g, "")) }));
    return h("fieldset.rules", {}, h("legend", {}, "Between the groups"),
      h("div.radios", {}, policy("none", "May meet on one provider"),
        policy("isolate", "Each on a provider of its own")),
      text("In one subtree (suffixes, comma between)", query.sameSubtree.join(" ; "),
        (value) => { query.sameSubtree = value.split(";").filter(Boolean); }),
      text("The root has (traits)", query.rootRequired,
        (value) => { query.rootRequired = value; }, "known-traits"));
  }
}

customElements.define("request-form", RequestForm);
