/** Groups and holds of consumers (specification 09). */

import { isAbort, read } from "../api.js";
import { h } from "../dom.js";
import { counted, timeOfDay } from "../model/units.js";
import { address } from "../router.js";
import { outLink } from "./out_link.js";

/** @typedef {import("../model/types.js").Claimed} Claimed */
/** @typedef {import("../model/types.js").ConsumerGroup} ConsumerGroup */

/**
 * Until when a consumer is held, and of which groups it is a member; empty for one without either.
 *
 * @param {Claimed} claimed
 */
export function claimWords({ held_until: until, groups = [] }) {
  return [
    ...until ? [`held until ${timeOfDay(Date.parse(until))}`] : [],
    ...groups.length ? [`in ${groups.join(", ")}`] : [],
  ].join(" · ");
}

/**
 * Read groups; those that have ended meanwhile, or that may not be seen, are left out.
 *
 * @param {string[]} names
 * @param {AbortSignal} signal
 * @returns {Promise<ConsumerGroup[]>}
 */
export async function readGroups(names, signal) {
  const found = await Promise.all(names.map(async (name) => {
    try {
      const path = name.split("/").map(encodeURIComponent).join("/");
      return [(await read(`-/groups/${path}`, { signal })).body];
    } catch (error) {
      if (isAbort(error)) throw error;
      return [];
    }
  }));
  return found.flat();
}

/** @param {ConsumerGroup} group */
export function groupSection({ name, rule, level, at_most: most, members, kept }) {
  const words = rule === "apart" ? `apart: at most ${most} in one ${level}` : `together: all in one ${level}`;
  return h("section", {}, h("h2", {}, `Group ${name}`),
    h("p.calm", {}, `${counted(members.length, "member")}, ${words}.`,
      !kept && h("strong", {}, " The rule is not kept.")),
    h("ul", {}, members.map(({ consumer_uuid: uuid }) => h("li", {},
      h("a.uuid", { href: address("owners", "", { consumer: uuid }) }, uuid), outLink("consumer", uuid)))));
}
