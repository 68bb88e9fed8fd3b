/** The use of the cloud: consumers gathered from the pages of trees, and summed by owner. */

import { inSlices } from "../dom.js";

/** @typedef {import("./types.js").Tree} Tree */
/** @typedef {"project" | "user" | "type"} OwnerKind */
/**
 * @typedef {object} Holding what one consumer holds of one tree
 * @property {string} uuid
 * @property {string} root
 * @property {string} tree name of the root
 * @property {string} project
 * @property {string} user
 * @property {string} type
 * @property {import("./types.js").Claimed} claimed
 * @property {Record<string, Record<string, number>>} byProvider
 */
/**
 * @typedef {object} OwnerRow
 * @property {string} name
 * @property {number} consumers
 * @property {Record<string, number>} resources
 */

/**
 * The holdings of consumers that the page keeps of a tree.
 *
 * @param {Tree} tree
 * @returns {Holding[]}
 */
export function holdingsOf(tree) {
  /** @type {Map<string, Holding>} */
  const found = new Map();
  for (const provider of tree.providers) {
    for (const [uuid, allocation] of Object.entries(provider.allocations ?? {})) {
      const holding = found.get(uuid) ?? {
        uuid, root: tree.root, tree: tree.providers[0].name,
        project: allocation.project, user: allocation.user,
        type: allocation.type, claimed: { held_until: allocation.held_until }, byProvider: {} };
      holding.byProvider[provider.uuid] = allocation.resources;
      found.set(uuid, holding);
    }
  }
  return [...found.values()];
}

/**
 * Sum holdings by owner, most consumers first.
 *
 * @param {Holding[][]} trees what is held of each tree
 * @param {OwnerKind} kind
 * @param {AbortSignal} signal
 * @returns {Promise<OwnerRow[]>}
 */
export async function byOwner(trees, kind, signal) {
  /** @type {Map<string, OwnerRow & {seen: Set<string>}>} */
  const rows = new Map();
  await inSlices(trees, (holdings) => {
    for (const holding of holdings) {
      const name = holding[kind];
      const row = rows.get(name) ?? { name, consumers: 0, resources: {}, seen: new Set() };
      row.seen.add(holding.uuid);
      addResources(row.resources, holding);
      rows.set(name, row);
    }
  }, signal);
  return [...rows.values()]
    .map(({ name, resources, seen }) => ({ name, resources, consumers: seen.size }))
    .sort((a, b) => b.consumers - a.consumers || (a.name < b.name ? -1 : 1));
}

/**
 * The consumers of one owner, each with all that it holds.
 *
 * @param {Holding[][]} trees
 * @param {(holding: Holding) => boolean} wanted
 * @param {AbortSignal} signal
 * @returns {Promise<import("../parts/consumer_table.js").Consumer[]>}
 */
export async function byConsumer(trees, wanted, signal) {
  /** @type {Map<string, import("../parts/consumer_table.js").Consumer>} */
  const found = new Map();
  await inSlices(trees, (holdings) => {
    for (const holding of holdings.filter(wanted)) {
      const { uuid, project, user, type, claimed, tree } = holding;
      const consumer = found.get(uuid) ?? { uuid, project, user, type, claimed, resources: {}, places: [] };
      addResources(consumer.resources, holding);
      consumer.places.push(tree);
      found.set(uuid, consumer);
    }
  }, signal);
  return [...found.values()];
}

/** @param {Record<string, number>} sums @param {Holding} holding */
function addResources(sums, { byProvider }) {
  for (const uuid in byProvider) {
    const resources = byProvider[uuid];
    for (const name in resources) sums[name] = (sums[name] ?? 0) + resources[name];
  }
}
