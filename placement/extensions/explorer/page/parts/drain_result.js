/** The effect of draining a host: what still fits, and the consumers without a place. */

import { h } from "../dom.js";
import { amounts, count, counted, total } from "../model/units.js";
import { address } from "../router.js";
import { outLink } from "./out_link.js";
import { scroller } from "./scroller.js";

/** @typedef {import("../model/types.js").WhatIf} WhatIf */
/** @typedef {import("../model/types.js").Outcome} Outcome */

/** @param {Outcome} outcome */
function howMany({ capacity: { count: number, complete } }) {
  return [complete ? "" : "at least ", h("b", {}, count(number))];
}

/**
 * @param {{uuid: string, name: string}} host
 * @param {WhatIf} outcome
 */
export function drainResult({ uuid, name }, { before, after, homeless, complete }) {
  return h("section", { class: homeless.length || !complete ? "verdict cannot" : "verdict could" },
    h("h2", {}, "If ", h("a", { href: address("tree", uuid) }, name), " were drained"),
    h("p", {}, homeless.length
      ? `${counted(homeless.length, "consumer")} would find no place.`
      : complete ? "All its consumers would find a place elsewhere." : "No consumer without a place was found.",
    complete ? "" : " Not all were tried: the time or the bound of work was over."),
    h("p", {}, "Of this request ", howMany(after), " would still fit, ", howMany(before), " do now."),
    homeless.length > 0 && homelessTable(homeless));
}

/**
 * The consumers without another place.
 *
 * @param {import("../model/types.js").Homeless[]} homeless
 */
export function homelessTable(homeless) {
  return scroller("Homeless", h("table", {},
    h("thead", {}, h("tr", {}, ["Consumer", "Type", "Project", "Holds", "Kept out by"].map(
      (title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, homeless.slice(0, 200).map((it) => h("tr", {},
      h("th", { scope: "row" }, h("a.uuid", { href: address("owners", "", { consumer: it.uuid }) }, it.uuid),
        outLink("consumer", it.uuid)),
      h("td", {}, it.type),
      h("td", {}, it.project, outLink("project", it.project)),
      h("td", {}, amounts(total(it.allocations))),
      h("td", {}, it.groups?.join(", ") ?? ""))))));
}
