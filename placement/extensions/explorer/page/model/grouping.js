/** Trees by the aggregates that they are in: racks, zones, and others, none of which has a name. */

import { SHARING } from "./traits.js";
import { count, counted } from "./units.js";

/** @typedef {import("./forest.js").Row} Row */
/** @typedef {{key: string, title: string, rows: Row[]}} Group key: the uuid of the aggregate, "" for none of them */

export const EVERY = "*";
const MOST_GROUPS = 200;

/**
 * What to call aggregates: what the names of their trees have in common.
 *
 * @param {Row[]} rows
 * @returns {Map<string, {title: string, size: number}>} by uuid, the largest first
 */
export function aggregatesOf(rows) {
  /** @type {Map<string, {names: string[], size: number}>} */
  const found = new Map();
  for (const row of rows) {
    for (const uuid of row.aggregates) {
      const of = found.get(uuid) ?? { names: [], size: 0 };
      of.size += 1;
      // A pool that shares with the hosts of a rack is called something else.
      if (!row.traits.has(SHARING)) of.names.push(row.name);
      found.set(uuid, of);
    }
  }
  const largest = [...found].sort(([one, a], [other, b]) => b.size - a.size || (one < other ? -1 : 1));
  return new Map(largest.map(([uuid, { names, size }]) => [uuid,
    { title: names.length ? shared(names) : uuid.slice(0, 8), size }]));
}

/** @param {string[]} names */
function shared(names) {
  if (names.length <= 2) return names.join(", ");
  let length = names[0].length;
  for (const name of names) while (!name.startsWith(names[0].slice(0, length))) length -= 1;
  return length ? `${names[0].slice(0, length)}…` : `${names[0]}, ${names[1]}, …`;
}

/**
 * The aggregates in layers that no host is in twice: the zones in one, their racks in the next.
 *
 * @param {Row[]} rows
 * @param {Iterable<string>} largestFirst uuids of all aggregates
 * @returns {string[][]}
 */
export function layersOf(rows, largestFirst) {
  /** @type {Map<string, Set<string>>} */
  const meets = new Map();
  /** @type {Set<string>} */
  const seen = new Set();
  for (const { aggregates, traits } of rows) {
    // A pool may serve several racks, which are none the less beside one another.
    if (traits.has(SHARING)) continue;
    const together = [...aggregates];
    const key = together.join();
    if (seen.has(key)) continue;
    seen.add(key);
    for (const uuid of together) {
      const others = meets.get(uuid) ?? new Set();
      for (const other of together) others.add(other);
      meets.set(uuid, others);
    }
  }
  /** @type {{uuids: string[], met: Set<string>}[]} */
  const layers = [];
  for (const uuid of largestFirst) {
    let layer = layers.find(({ met }) => !met.has(uuid));
    if (!layer) layers.push(layer = { uuids: [], met: new Set() });
    layer.uuids.push(uuid);
    for (const other of meets.get(uuid) ?? []) layer.met.add(other);
  }
  return layers.map(({ uuids }) => uuids);
}

/**
 * The rows in groups, in the order of their titles; those in no group come last.
 *
 * @param {Row[]} rows
 * @param {string} by a member of the layer, or EVERY; "" puts all into one group
 * @param {Row[]} all by which the aggregates are called
 * @returns {{groups: Group[], more: number}} more: aggregates that were too many
 */
export function grouped(rows, by, all) {
  if (!by) return { groups: [{ key: "", title: "", rows }], more: 0 };
  const aggregates = aggregatesOf(all);
  const wanted = by === EVERY ? [...aggregates.keys()]
    : layersOf(all, aggregates.keys()).find((layer) => layer.includes(by)) ?? [];
  /** @type {Map<string, Group>} */
  const groups = new Map(wanted.slice(0, MOST_GROUPS).map((uuid) => [uuid,
    { key: uuid, title: aggregates.get(uuid)?.title ?? uuid, rows: [] }]));
  const rest = { key: "", title: by === EVERY ? "In no aggregate" : "In none of these", rows: /** @type {Row[]} */ ([]) };
  for (const row of rows) {
    const mine = [...row.aggregates].flatMap((uuid) => groups.get(uuid) ?? []);
    for (const group of mine.length ? mine : [rest]) group.rows.push(row);
  }
  const byTitle = [...groups.values()].sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
  return { groups: [...byTitle, rest].filter((group) => group.rows.length),
    more: Math.max(0, wanted.length - MOST_GROUPS) };
}

/**
 * "200 trees with 862 providers", and how many of them are out of service.
 *
 * @param {Row[]} rows
 * @param {number} [of] how many there are, if these are a part
 */
export function sizeWords(rows, of = rows.length) {
  const providers = rows.reduce((sum, row) => sum + row.providers, 0);
  const trees = rows.length === of ? counted(rows.length, "tree") : `${count(rows.length)} of ${counted(of, "tree")}`;
  return `${trees} with ${counted(providers, "provider")}`;
}
