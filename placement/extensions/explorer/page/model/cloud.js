/** The trees of the cloud, shared by the views of this tab. */

import { isAbort } from "../api.js";
import { Forest, rowOf } from "./forest.js";
import { aggregatesOf } from "./grouping.js";
import { holdingsOf } from "./owners.js";

/** @typedef {import("./forest.js").Row} Row */

/** @type {Forest<Row>} */
let forest = new Forest(rowOf);

/** @type {Forest<import("./owners.js").Holding[]>} */
let held = new Forest(holdingsOf, { allocations: "true" });

/** @returns {Forest<Row>} */
export function cloud() {
  return forest;
}

/** The holdings of consumers, by tree. */
export function ledger() {
  return held;
}

/**
 * Read what the view of the cloud calls each aggregate; it is empty where the trees cannot be read.
 *
 * @param {AbortSignal} signal
 * @returns {Promise<Map<string, string>>} by uuid
 */
export async function readAggregateTitles(signal) {
  try {
    await forest.refresh(signal, () => {});
  } catch (error) {
    if (isAbort(error)) throw error;
    return new Map();
  }
  const found = [...aggregatesOf(forest.rows)];
  /** @type {Map<string, number>} */
  const shared = new Map();
  for (const [, { title }] of found) shared.set(title, (shared.get(title) ?? 0) + 1);
  // A rack and a zone may have the same hosts.
  return new Map(found.map(([uuid, { title }]) => [uuid,
    shared.get(title) === 1 ? title : `${title} (${uuid.slice(0, 8)})`]));
}

/** Forget the trees: another token may see others. */
export function forgetCloud() {
  forest = new Forest(rowOf);
  held = new Forest(holdingsOf, { allocations: "true" });
}
