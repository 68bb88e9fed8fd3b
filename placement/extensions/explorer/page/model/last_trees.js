/** The trees that were looked at last, in this tab. */

import { ofTab } from "../storage.js";

const KEY = "placement-last-trees";
const MOST = 8;

/** @typedef {{uuid: string, name: string}} Seen */

/** @returns {Seen[]} newest first */
export function lastTrees() {
  return JSON.parse(ofTab.get(KEY) ?? "[]");
}

/** @param {Seen} tree */
export function rememberTree({ uuid, name }) {
  const others = lastTrees().filter((it) => it.uuid !== uuid);
  ofTab.set(KEY, JSON.stringify([{ uuid, name }, ...others].slice(0, MOST)));
}
