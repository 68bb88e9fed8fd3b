/** Whether something has changed in the cloud, as the service tells it to those who wait. */

import { read, Refusal } from "../api.js";

const GONE = 410;

/** @type {string | null} */
let token = null;

/**
 * Wait until something has changed, for so many seconds at most.
 *
 * @param {number} seconds
 * @returns {Promise<boolean | null>} null for the first time: it is not known what has changed before
 */
export async function hasChanged(seconds) {
  if (token === null) {
    token = /** @type {string} */ ((await read("-/changes")).body.next);
    return null;
  }
  try {
    const { body } = await read(`-/changes?${new URLSearchParams({ since: token, wait_s: String(seconds) })}`);
    token = body.next;
    return body.trees.length > 0;
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== GONE) throw error;
    // From here on, before everything is read again.
    token = (await read("-/changes")).body.next;
    return true;
  }
}

/** Forget where the changes were read to: another token of the service may see others. */
export function forgetChanges() {
  token = null;
}
