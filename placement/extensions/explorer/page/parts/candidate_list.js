/** The answer of a search, drawn: one card for each tree, with the ways to serve the request there. */

import { h, refill } from "../dom.js";
import { amounts, counted } from "../model/units.js";
import { drawnTree } from "./provider_box.js";
import { providerName } from "./provider_menu.js";

/** @typedef {import("../model/types.js").CandidateRequest} CandidateRequest */
/** @typedef {import("../model/types.js").Tree} Tree */
/** @typedef {{roots: string[], ways: CandidateRequest[]}} Place */

/**
 * Candidates by the trees that they touch, in the order of the answer.
 *
 * @param {import("../model/types.js").Candidates} answer
 * @returns {Place[]}
 */
export function places({ allocation_requests, provider_summaries }) {
  /** @type {Map<string, Place>} */
  const found = new Map();
  for (const way of allocation_requests) {
    const roots = [...new Set(Object.keys(way.allocations).map(
      (uuid) => provider_summaries[uuid]?.root_provider_uuid ?? uuid))];
    const key = [...roots].sort().join();
    const place = found.get(key) ?? { roots, ways: [] };
    place.ways.push(way);
    found.set(key, place);
  }
  return [...found.values()];
}

/**
 * @param {Place} place
 * @param {Map<string, Tree>} trees by root
 */
export function candidateCard(place, trees) {
  const drawn = place.roots.flatMap((root) => trees.get(root) ?? []);
  drawn.sort((a, b) => b.providers.length - a.providers.length);
  const body = h("div.candidate-body", {});
  const step = h("span.ways", {});
  let way = 0;
  const draw = () => {
    const now = place.ways[way];
    refill(body, drawn.map((tree) => drawnTree(tree, lookOf(now, tree))));
    refill(step, place.ways.length > 1 && [
      h("button.small", { type: "button", "aria-label": "Previous way", "data-key": "previous",
        onclick: () => turn(-1) }, "‹"),
      h("span", {}, `way ${way + 1} of ${place.ways.length}`),
      h("button.small", { type: "button", "aria-label": "Next way", "data-key": "next",
        onclick: () => turn(1) }, "›")]);
  };
  const turn = (/** @type {number} */ by) => {
    way = (way + by + place.ways.length) % place.ways.length;
    draw();
  };
  draw();
  const main = drawn[0]?.providers[0];
  return h("article.candidate", {},
    h("header", {}, h("h3", {}, main ? providerName(main, `candidate ${main.uuid}`) : place.roots[0]),
      drawn.length > 1 && h("small", {}, `with ${counted(drawn.length - 1, "other tree")} that ${
        drawn.length > 2 ? "share" : "shares"}`), step),
    drawn.length ? body : fallback(place.ways[0]));
}

/** @param {CandidateRequest} way @param {Tree} tree */
function lookOf(way, tree) {
  /** @type {Record<string, Record<string, number>>} */
  const asked = {};
  /** @type {Record<string, string[]>} */
  const groups = {};
  for (const [uuid, { resources }] of Object.entries(way.allocations)) asked[uuid] = resources;
  for (const [suffix, uuids] of Object.entries(way.mappings ?? {})) {
    for (const uuid of uuids) (groups[uuid] ??= []).push(suffix);
  }
  return { asked, groups, brief: true, key: `${tree.root} ` };
}

/** @param {CandidateRequest} way */
function fallback(way) {
  return h("ul", {}, Object.entries(way.allocations).map(([uuid, { resources }]) =>
    h("li", {}, h("code", {}, uuid), `: ${amounts(resources)}`)));
}
