/** An aggregate by its title, which leads to its trees. */

import { h } from "../dom.js";
import { address } from "../router.js";

/**
 * @param {string} uuid
 * @param {Map<string, string>} titles of the aggregates, by uuid
 */
export function aggregateLink(uuid, titles) {
  const title = titles.get(uuid);
  return h(title ? "a" : "a.uuid", { href: address("cloud", "", { aggregate: uuid }), title: uuid }, title ?? uuid);
}
