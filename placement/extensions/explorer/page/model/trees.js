/** Trees that are read for the names of their providers. */

import { Refusal, read } from "../api.js";

/** @typedef {import("./types.js").Tree} Tree */

/** So many uuids fit into one address. */
const AT_ONCE = 100;
const UUID = /^[\da-f]{8}(-?[\da-f]{4}){3}-?[\da-f]{12}$/i;

/**
 * The trees of providers, by the uuid of each provider that is in them.
 *
 * @param {Iterable<string>} uuids
 * @param {AbortSignal} [signal]
 * @returns {Promise<Map<string, Tree>>}
 */
export async function treesOf(uuids, signal) {
  const wanted = [...new Set(uuids)];
  /** @type {Map<string, Tree>} */
  const found = new Map();
  for (let at = 0; at < wanted.length; at += AT_ONCE) {
    const params = new URLSearchParams(wanted.slice(at, at + AT_ONCE).map((uuid) => ["uuid", uuid]));
    /** @type {Tree[]} */
    const trees = (await read(`-/trees?${params}`, { signal })).body.trees;
    for (const tree of trees) for (const { uuid } of tree.providers) found.set(uuid, tree);
  }
  return found;
}

/**
 * The root of the tree of a provider, which is named or given by its UUID.
 *
 * @param {string} wanted
 * @param {AbortSignal} signal
 * @returns {Promise<{uuid: string, name: string}>}
 */
export async function findHost(wanted, signal) {
  const path = UUID.test(wanted) ? `-/trees/${wanted}` : `-/trees?${new URLSearchParams({ name: wanted })}`;
  const { body } = await read(path, { signal });
  /** @type {Tree | undefined} */
  const tree = body.trees[0];
  if (!tree) throw new Refusal(404, `No provider has the name ${wanted}.`);
  return tree.providers[0];
}
