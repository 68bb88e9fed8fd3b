/** One group of a request as a card: what it asks for, and of what kind of provider. */

import { h } from "../dom.js";
import { amount, requestUnit } from "../model/units.js";

/** @typedef {import("../model/query.js").Group} Group */
/** @typedef {import("../model/query.js").ConditionKind} ConditionKind */
/** @typedef {{redraw: () => void, remove: (() => void) | null}} Actions */

/** @type {Record<ConditionKind, [string, string]>} kind: [what people read, list of suggestions] */
const KINDS = {
  has: ["has trait", "known-traits"],
  lacks: ["lacks trait", "known-traits"],
  oneOf: ["has one of (comma between)", "known-traits"],
  inAggregate: ["is in one of the aggregates", ""],
  notInAggregate: ["is in none of the aggregates", ""],
  inTree: ["is in the tree of", ""],
};

/**
 * @param {Group} group
 * @param {number} index
 * @param {Actions} actions
 */
export function groupCard(group, index, { redraw, remove }) {
  const title = group.suffix ? "Group" : "Request";
  return h("fieldset.group-card", {},
    h("legend", {}, title),
    h("div.card-head", {}, group.suffix ? suffixField(group, index)
      : h("small", {}, "Any providers of one tree, and those that share with it"),
    remove && h("button.small.quiet", { type: "button", onclick: remove,
      "aria-label": `Remove ${title.toLowerCase()} ${group.suffix}`, "data-key": `remove ${index}` }, "✕")),
    group.amounts.map((_, at) => amountRow(group, index, at, redraw)),
    group.conditions.map((_, at) => conditionRow(group, index, at, redraw)),
    h("div.row", {},
      h("button.small", { type: "button", "data-key": `add amount ${index}`, onclick: () => {
        group.amounts.push({ name: "", amount: "" });
        redraw();
      } }, "+ Resource"),
      h("button.small", { type: "button", "data-key": `add condition ${index}`, onclick: () => {
        group.conditions.push({ kind: "has", value: "" });
        redraw();
      } }, "+ Condition")));
}

/** @param {Group} group @param {number} index */
function suffixField(group, index) {
  return h("label.suffix", {}, h("span.spoken", {}, "Suffix of the group"), h("input", {
    value: group.suffix, pattern: "[\\w\\-]{1,64}", required: true, "data-key": `suffix ${index}`,
    spellcheck: "false", autocomplete: "off",
    oninput: (/** @type {Event} */ event) => { group.suffix = valueOf(event); } }),
  h("small", {}, "from one provider"));
}

/**
 * @param {Group} group
 * @param {number} index
 * @param {number} at
 * @param {() => void} redraw
 */
function amountRow(group, index, at, redraw) {
  const row = group.amounts[at];
  const unit = h("span.unit", {});
  const tell = () => {
    const plain = requestUnit(row.name);
    const said = row.amount && row.name ? amount(row.name, Number(row.amount)) : "";
    // 32768 MiB is better read as 32 GiB; 8 cores are 8 cores.
    unit.textContent = /iB$|\/s$/.test(plain) && said && !said.endsWith(` ${plain}`) ? `= ${said}` : plain;
    unit.title = plain;
  };
  tell();
  return h("div.field-row", {},
    h("input.name", { list: "known-classes", value: row.name, "aria-label": "Resource class",
      placeholder: "class, e.g. VCPU", "data-key": `amount ${index} ${at} name`, spellcheck: "false", autocomplete: "off",
      oninput: (/** @type {Event} */ event) => { row.name = valueOf(event); tell(); } }),
    h("input.number", { type: "number", min: "1", step: "1", value: row.amount, "aria-label": "Amount",
      placeholder: "amount", "data-key": `amount ${index} ${at} number`,
      oninput: (/** @type {Event} */ event) => { row.amount = valueOf(event); tell(); } }),
    unit, removeButton("Remove the resource", `amount ${index} ${at} remove`, () => {
      group.amounts.splice(at, 1);
      redraw();
    }));
}

/**
 * @param {Group} group
 * @param {number} index
 * @param {number} at
 * @param {() => void} redraw
 */
function conditionRow(group, index, at, redraw) {
  const row = group.conditions[at];
  return h("div.field-row.condition", {},
    h("select", { "aria-label": "Condition", "data-key": `condition ${index} ${at} kind`,
      onchange: (/** @type {Event} */ event) => {
        row.kind = /** @type {ConditionKind} */ (valueOf(event));
        redraw();
      } }, Object.entries(KINDS).map(([value, [title]]) =>
      h("option", { value, selected: value === row.kind }, title))),
    h("input", { list: KINDS[row.kind][1] || null, value: row.value, spellcheck: "false", autocomplete: "off",
      "aria-label": KINDS[row.kind][0], "data-key": `condition ${index} ${at} value`,
      placeholder: KINDS[row.kind][1] ? "trait" : "UUID",
      oninput: (/** @type {Event} */ event) => { row.value = valueOf(event).replace(/\s/g, ""); } }),
    removeButton("Remove the condition", `condition ${index} ${at} remove`, () => {
      group.conditions.splice(at, 1);
      redraw();
    }));
}

/**
 * @param {string} title
 * @param {string} key
 * @param {() => void} onclick
 */
function removeButton(title, key, onclick) {
  return h("button.small.quiet", { type: "button", "aria-label": title, "data-key": key, onclick }, "✕");
}

/** @param {Event} event */
function valueOf(event) {
  return /** @type {HTMLInputElement | HTMLSelectElement} */ (event.target).value.trim();
}
