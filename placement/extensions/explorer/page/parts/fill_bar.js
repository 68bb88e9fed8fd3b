/** A bar that shows one class of one inventory, or of a sum: used, reserved, asked. */

import { h } from "../dom.js";
import { colour, level, ratio } from "../model/fullness.js";
import { amountOf, label, percent, together } from "../model/units.js";

/**
 * @typedef {object} Fill
 * @property {number} used
 * @property {number} capacity
 * @property {number} [reserved] in the units of `total`
 * @property {number} [total]
 * @property {number} [asked] drawn beyond what is used
 */

/**
 * Draw a line: what it is called, how much of how much, and the bar.
 *
 * @param {string} name resource class
 * @param {Fill} fill
 */
export function fillBar(name, fill) {
  const { used, capacity } = fill;
  const part = ratio(used, capacity);
  const { texts, unit } = together(name, used, capacity, fill.asked ?? 0);
  return h(fill.asked ? "div.fill-bar.asking" : "div.fill-bar", { title: tip(name, fill) },
    h("span.what", {}, label(name)),
    h("span.amount", {}, h("b", {}, texts[0]),
      fill.asked ? h("em", {}, ` +${texts[2]}`) : null, ` / ${texts[1]}${unit && ` ${unit}`}`),
    track(part, fill),
    !fill.asked && h("span", { class: part > 1 ? "percent over" : "percent" }, percent(part)));
}

/**
 * @param {number} part
 * @param {Fill} fill
 */
export function track(part, fill) {
  const step = level(part);
  const held = fill.total && fill.reserved ? Math.min(1, fill.reserved / fill.total) : 0;
  const open = 1 - held;
  const asked = fill.asked && fill.capacity > 0 ? fill.asked / fill.capacity : 0;
  return h("span.track", { "aria-hidden": "true", class: step > 10 ? "track over" : "track" },
    h("span.used", { "--part": Math.min(1, part) * open, "--ink": colour(step) }),
    asked > 0 && h("span.asked", {
      "--from": Math.min(1, part) * open, "--part": Math.min(asked, Math.max(0, 1 - part)) * open }),
    held > 0 && h("span.reserved", { "--part": held }));
}

/**
 * @param {string} name
 * @param {Fill} fill
 */
function tip(name, { used, capacity, reserved, total }) {
  const parts = [`${name}: ${amountOf(name, used)} used of ${amountOf(name, capacity)}`];
  if (total !== undefined) parts.push(`total ${amountOf(name, total)}`);
  if (reserved) parts.push(`reserved ${amountOf(name, reserved)}`);
  return parts.join("; ");
}
