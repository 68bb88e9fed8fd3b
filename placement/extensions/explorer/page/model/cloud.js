/** The trees of the cloud, shared by the views of this tab. */

import { Forest, rowOf } from "./forest.js";
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

/** Forget the trees: another token may see others. */
export function forgetCloud() {
  forest = new Forest(rowOf);
  held = new Forest(holdingsOf, { allocations: "true" });
}
