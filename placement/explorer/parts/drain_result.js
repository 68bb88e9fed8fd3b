/** The effect of draining a host: what still fits, and the consumers without a place. */

import { h } from "../dom.js";
import { amounts, count, counted, total } from "../model/units.js";
import { address } from "../router.js";

/** @typedef {import("../model/types.js").WhatIf} WhatIf */

/**
 * @param {{uuid: string, name: string}} host
 * @param {WhatIf} outcome
 */
export function drainResult({ uuid, name }, { before, after, homeless }) {
  return h("section", { class: homeless.length ? "verdict cannot" : "verdict could" },
    h("h2", {}, "If ", h("a", { href: address("tree", uuid) }, name), " were drained"),
    h("p", {}, homeless.length
      ? `${counted(homeless.length, "consumer")} would find no place.`
      : "Everybody on it would find a place elsewhere."),
    h("p", {}, "Of this request ", h("b", {}, count(after.capacity.count)), " would still fit, ",
      h("b", {}, count(before.capacity.count)), " do now."),
    homeless.length > 0 && h("div.scroller", { tabindex: "0", role: "group", "aria-label": "Homeless" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Consumer", "Type", "Project", "Holds", "Kept out by"].map(
        (title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, homeless.slice(0, 200).map((it) => h("tr", {},
        h("th", { scope: "row" }, h("a.uuid", { href: address("owners", "", { consumer: it.uuid }) }, it.uuid)),
        h("td", {}, it.type),
        h("td", {}, it.project),
        h("td", {}, amounts(total(it.allocations))),
        h("td", {}, it.groups?.join(", ") ?? ""))))))
  );
}
