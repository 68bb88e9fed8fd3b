/** The names that a question can be made of: resource classes and traits. */

import { read, Refusal } from "../api.js";

/** @typedef {{classes: string[], traits: string[]}} Vocabulary */

/** @type {Vocabulary | null} */
let known = null;

/**
 * Read the names once; without the right to list them there are none to choose from.
 *
 * @param {AbortSignal} signal
 * @returns {Promise<Vocabulary>}
 */
export async function vocabulary(signal) {
  if (known) return known;
  const [classes, traits] = await Promise.all([
    read("resource_classes", { signal }).then(({ body }) => body.resource_classes, ifAllowed),
    read("traits", { signal }).then(({ body }) => body.traits, ifAllowed),
  ]);
  known = { classes: classes.map((/** @type {{name: string}} */ it) => it.name), traits };
  return known;
}

/** @param {unknown} error @returns {never[]} */
function ifAllowed(error) {
  if (error instanceof Refusal && error.status === 403) return [];
  throw error;
}

export function forgetVocabulary() {
  known = null;
}
