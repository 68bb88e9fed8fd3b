/** Who wrote a provider, a consumer or what a project holds: asked for when it is opened. */

import { isAbort, read, Refusal } from "../api.js";
import { h, refill } from "../dom.js";
import { amounts, moment } from "../model/units.js";
import { address } from "../router.js";
import { errorNote, loadingNote, stateNote } from "./state_note.js";

/** @typedef {import("../model/types.js").Written} Written */
/** @typedef {{provider: string} | {consumer: string} | {project_id: string}} Subject */

const PAGE = "25";

/**
 * What was written, newest first, behind a line that opens it. It survives a refresh of the view open.
 *
 * @param {Subject} subject
 */
export function activity(subject) {
  const place = h("div", {});
  const details = h("details.activity", { "data-key": "activity", ontoggle: () => {
    if (details.hasAttribute("open") && !place.hasChildNodes()) void show(place, subject);
  } }, h("summary", {}, h("h2", {}, "Activity")), place);
  return h("section", {}, details);
}

/** @param {HTMLElement} place @param {Subject} subject */
async function show(place, subject) {
  refill(place, loadingNote("Reading who wrote what …"));
  const list = h("ol.writes", {});
  const more = h("button", { type: "button", "data-key": "earlier" }, "Earlier");
  try {
    let next = await addPage(list, subject, null);
    more.addEventListener("click", () => void turn());
    const turn = async () => {
      more.setAttribute("disabled", "");
      try {
        next = await addPage(list, subject, next);
        more.removeAttribute("disabled");
        more.hidden = next === null;
      } catch (error) {
        more.replaceWith(errorNote(error, () => void show(place, subject)));
      }
    };
    more.hidden = next === null;
    refill(place, ...list.hasChildNodes() ? [list, more]
      : [h("p.calm", {}, "Nothing was written that is still known.")]);
  } catch (error) {
    if (isAbort(error)) return;
    refill(place, error instanceof Refusal && error.status === 404
      ? stateNote("◌", "No history is kept", [h("span", {}, "With ", h("code", {}, "[insight]/history_days"),
        " the service keeps who wrote what, and what was there before.")])
      : errorNote(error, () => void show(place, subject)));
  }
}

/**
 * @param {HTMLElement} list
 * @param {Subject} subject
 * @param {string | null} marker
 * @returns {Promise<string | null>} the marker of the next page
 */
async function addPage(list, subject, marker) {
  const params = new URLSearchParams({ ...subject, limit: PAGE, ...marker === null ? {} : { marker } });
  /** @type {{writes: Written[], next: string | null}} */
  const page = (await read(`-/history?${params}`)).body;
  list.append(...page.writes.map((written) => entry(written, subject)));
  return page.next;
}

/** @param {Written} written @param {Subject} subject */
function entry(written, subject) {
  const { by, consumer_uuid: consumer, provider_uuid: provider } = written;
  return h("li", {},
    h("p.when", {}, h("time", { datetime: written.at }, moment(Date.parse(written.at))), " ",
      h("code", {}, [written.method, written.route].filter(Boolean).join(" "))),
    h("ul.what", {}, changes(written).map((change) => h("li", {}, change))),
    h("p.calm", {},
      consumer && !("consumer" in subject) && ["consumer ", h("a.uuid", {
        href: address("owners", "", { consumer }) }, consumer), " "],
      provider && !("provider" in subject) && ["provider ", h("a.uuid", {
        href: address("tree", provider) }, provider), " "],
      by.user_id === null ? "by no user" : `by ${by.user_id} of ${by.project_id ?? "no project"}`,
      written.request_id && [", ", h("span.uuid", {}, written.request_id)],
      written.global_request_id && [" for ", h("span.uuid", {}, written.global_request_id)]));
}

/** @param {Written} written @returns {string[]} */
function changes({ consumer_uuid: consumer, before, after }) {
  if (consumer !== null) {
    const words = [before, after].map((side) => amounts(side?.resources ?? {}) || "nothing");
    const owners = [before, after].map((side) => side?.project_id).filter(Boolean);
    return [words.join(" → "), `project ${[...new Set(owners)].join(" → ")}`];
  }
  const lines = before === null ? ["has come"] : after === null ? ["has gone"] : [];
  for (const name of new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])) {
    const sides = [before, after].map((side) => part(side?.[/** @type {"name"} */ (name)]));
    if (sides[0] !== sides[1]) lines.push(`${name.replaceAll("_", " ")}: ${sides.join(" → ")}`);
  }
  return lines.length ? lines : ["as it was"];
}

/** @param {unknown} value of a provider: a name, a list of names, or inventories by class */
function part(value) {
  if (Array.isArray(value)) return [...value].sort().join(", ") || "none";
  if (typeof value !== "object" || value === null) return String(value ?? "none");
  const records = Object.entries(/** @type {Record<string, Record<string, number>>} */ (value));
  return records.map(([name, record]) => {
    const room = { [name]: record.total };
    const more = [
      ...record.reserved ? [`${record.reserved} reserved`] : [],
      ...record.allocation_ratio === 1 ? [] : [`ratio ${record.allocation_ratio}`],
    ];
    return `${amounts(room)}${more.length ? ` (${more.join(", ")})` : ""}`;
  }).join(", ") || "none";
}
