/** Who wrote a provider, a consumer or what a project holds: asked for when it is opened. */

import { isAbort, read, Refusal } from "../api.js";
import { h, refill } from "../dom.js";
import { Requests } from "../model/requests.js";
import { moment } from "../model/units.js";
import { errorNote, loadingNote, stateNote } from "./state_note.js";
import { consumerLines, providerLines } from "./written_lines.js";

/** @typedef {import("../model/types.js").Written} Written */
/** @typedef {{provider: string} | {consumer: string} | {project_id: string}} Subject */

const PAGE = "25";

/**
 * What was written, newest first, behind a line that opens it. It survives a refresh of the view open.
 *
 * @param {Subject} subject
 * @param {Iterable<string>} held the consumers that have a hold now
 */
export function activity(subject, held) {
  const place = h("div", {});
  const details = h("details.activity", { "data-key": "activity", ontoggle: () => {
    if (details.hasAttribute("open") && !place.hasChildNodes()) void show(place, subject, [...held]);
  } }, h("summary", {}, h("h2", {}, "Activity")), place);
  return h("section", {}, details);
}

/** @param {HTMLElement} place @param {Subject} subject @param {string[]} held */
async function show(place, subject, held) {
  refill(place, loadingNote("Reading who wrote what …"));
  const list = h("ol.writes", {});
  const more = h("button", { type: "button", "data-key": "earlier" }, "Earlier");
  const requests = new Requests(held);
  try {
    let next = await addPage(list, subject, requests, null);
    more.addEventListener("click", () => void turn());
    const turn = async () => {
      more.setAttribute("disabled", "");
      try {
        next = await addPage(list, subject, requests, next);
        more.removeAttribute("disabled");
        more.hidden = next === null;
      } catch (error) {
        more.replaceWith(errorNote(error, () => void show(place, subject, held)));
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
      : errorNote(error, () => void show(place, subject, held)));
  }
}

/**
 * @param {HTMLElement} list
 * @param {Subject} subject
 * @param {Requests} requests
 * @param {string | null} marker
 * @returns {Promise<string | null>} the marker of the next page
 */
async function addPage(list, subject, requests, marker) {
  const params = new URLSearchParams({ ...subject, limit: PAGE, ...marker === null ? {} : { marker } });
  /** @type {{writes: Written[], next: string | null}} */
  const page = (await read(`-/history?${params}`)).body;
  list.append(...requests.add(page.writes, page.next === null).map((writes) => entry(writes, requests, subject)));
  return page.next;
}

/**
 * @param {Written[]} writes of one request
 * @param {Requests} requests
 * @param {Subject} subject
 */
function entry(writes, requests, subject) {
  const [{ at, by, method, route, request_id: request, global_request_id: given }] = writes;
  const lines = [
    ...requests.consumers(writes).flatMap((it) => consumerLines(it, subject)),
    ...writes.filter((it) => it.consumer_uuid === null).flatMap((it) => providerLines(it, subject)),
  ];
  return h("li", {},
    h("p.when", {}, h("time", { datetime: at }, moment(Date.parse(at))), " ",
      h("code", {}, [method, route].filter(Boolean).join(" "))),
    h("ul.what", {}, lines.map((line) => h("li", {}, ...line))),
    h("p.calm", {},
      by.user_id === null ? "by no user" : `by ${by.user_id} of ${by.project_id ?? "no project"}`,
      request && [", ", h("span.uuid", {}, request)],
      given && [" for ", h("span.uuid", {}, given)]));
}
