/** Consumers with what they hold. */

import { h } from "../dom.js";
import { amounts, count } from "../model/units.js";
import { address } from "../router.js";
import { claimWords } from "./claim_note.js";
import { outLink } from "./out_link.js";
import { scroller } from "./scroller.js";

/**
 * @typedef {object} Consumer
 * @property {string} uuid
 * @property {string} type
 * @property {string} project
 * @property {string} user
 * @property {Record<string, number>} resources
 * @property {string[]} places what of which provider, one line each
 * @property {import("../model/types.js").Claimed} [claimed]
 */

const SHOWN = 100;

/**
 * @param {Consumer[]} consumers
 * @param {number} [shown]
 * @returns {HTMLElement}
 */
export function consumerTable(consumers, shown = SHOWN) {
  const place = h("div", {});
  const more = consumers.length - shown;
  place.append(
    scroller("Consumers",
      h("table", {},
        h("thead", {}, h("tr", {}, ["Consumer", "Type", "Project", "User", "Holds"].map(
          (title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, consumers.slice(0, shown).map(row)))));
  if (more > 0) {
    place.append(h("button", { type: "button", onclick: () => {
      place.replaceWith(consumerTable(consumers, shown + 5 * SHOWN));
    } }, `Show more (${count(more)} left)`));
  }
  return place;
}

/** @param {Consumer} consumer */
function row({ uuid, type, project, user, resources, places, claimed = {} }) {
  const note = claimWords(claimed);
  return h("tr", { title: places.join("\n") },
    h("th", { scope: "row" }, h("a.uuid", { href: address("owners", "", { consumer: uuid }) }, uuid),
      outLink("consumer", uuid)),
    h("td", {}, type || "unknown"),
    h("td", {}, project && h("a", { href: address("owners", "", { by: "project", of: project }) }, project),
      outLink("project", project)),
    h("td", {}, user && h("a", { href: address("owners", "", { by: "user", of: user }) }, user)),
    h("td", {}, amounts(resources), note && h("div.calm", {}, note)));
}
