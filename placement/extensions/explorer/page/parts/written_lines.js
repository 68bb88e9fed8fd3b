/** What a request wrote, in lines: of a consumer what it held before and after, of a provider what has changed. */

import { h } from "../dom.js";
import { amounts } from "../model/units.js";
import { address } from "../router.js";

/** @typedef {import("../dom.js").Child} Child */
/** @typedef {import("../model/types.js").Written} Written */
/** @typedef {import("../model/types.js").WrittenState} WrittenState */
/** @typedef {import("./activity.js").Subject} Subject */

const HOLD_WORDS = { begins: "hold begins: ", confirmed: "hold confirmed: ", expired: "hold expired: ", "": "" };

/**
 * @param {import("../model/requests.js").ConsumerWrite} write
 * @param {Subject} subject whose name the page has already said
 * @returns {Child[][]}
 */
export function consumerLines({ uuid, writes, hold }, subject) {
  const [before, after] = [heldOf(writes, "before", subject), heldOf(writes, "after", subject)];
  const isKept = textOf(before) === textOf(after);
  const what = [HOLD_WORDS[hold], ...isKept ? ["keeps ", ...after] : [...before, " → ", ...after]];
  const projects = new Set(["before", "after"].flatMap((side) => writes.map(
    (it) => it[/** @type {"before"} */ (side)]?.project_id)).filter(Boolean));
  return [[...what,
    !("consumer" in subject) && ", consumer ", !("consumer" in subject) && h("a.uuid", {
      href: address("owners", "", { consumer: uuid }) }, uuid),
    `, project ${[...projects].join(" → ") || "unknown"}`]];
}

/** @param {Child[]} children */
function textOf(children) {
  return children.map((it) => it instanceof Node ? it.textContent : it).join("");
}

/** @param {Written[]} writes @param {"before" | "after"} side @param {Subject} subject @returns {Child[]} */
function heldOf(writes, side, subject) {
  const inOrder = [...writes].sort((a, b) => (a.name ?? "").localeCompare(b.name ?? "", "en", { numeric: true }));
  const parts = inOrder.flatMap((it) => {
    const said = amounts(it[side]?.resources ?? {});
    return said ? [[said, ...("provider" in subject ? [] : [" of ", ...providerLink(it)])]] : [];
  });
  if (!parts.length) return ["nothing"];
  return parts.flatMap((part, at) => at ? [", ", ...part] : part);
}

/** @param {Written} written @returns {Child[]} */
function providerLink({ provider_uuid: uuid, name }) {
  return [uuid && h(name ? "a" : "a.uuid", { href: address("tree", uuid), title: uuid }, name || uuid)];
}

/** @param {Written} written of a provider @param {Subject} subject @returns {Child[][]} */
export function providerLines(written, subject) {
  const { before, after } = written;
  const lines = before === null ? ["created"] : after === null ? ["deleted"] : [];
  for (const name of new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])) {
    const sides = [before, after].map((side) => part(side?.[/** @type {"name"} */ (name)]));
    if (sides[0] !== sides[1]) lines.push(`${name.replaceAll("_", " ")}: ${sides.join(" → ")}`);
  }
  const whose = "provider" in subject ? [] : [...providerLink(written), ": "];
  return (lines.length ? lines : ["as it was"]).map((line) => [...whose, line]);
}

/** @param {unknown} value of a provider: a name, a list of names, or inventories by class */
function part(value) {
  if (Array.isArray(value)) return [...value].sort().join(", ") || "none";
  if (typeof value !== "object" || value === null) return String(value ?? "none");
  const records = Object.entries(/** @type {Record<string, Record<string, number>>} */ (value));
  return records.map(([name, record]) => {
    const more = [
      ...record.reserved ? [`${record.reserved} reserved`] : [],
      ...record.allocation_ratio === 1 ? [] : [`ratio ${record.allocation_ratio}`],
    ];
    return `${amounts({ [name]: record.total })}${more.length ? ` (${more.join(", ")})` : ""}`;
  }).join(", ") || "none";
}
