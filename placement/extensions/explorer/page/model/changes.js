/** Whether something has changed in the cloud, as the service tells it to those who wait. */

import { read, Refusal } from "../api.js";

const GONE = 410;

/** @type {string | null} */
let token = null;

/**
 * Have the changes counted, once, before anything is read: a change after this moment is told.
 *
 * @param {AbortSignal} signal
 */
export async function startCounting(signal) {
  if (isCounting()) return;
  try {
    token = (await read("-/changes", { signal })).body.next;
  } catch (error) {
    // A user to whom the service does not tell the changes may read all the same.
    if (!(error instanceof Refusal)) throw error;
  }
}

/** Whether the changes are counted. */
export function isCounting() {
  return token !== null;
}

/**
 * Wait until something has changed since the last answer, for so many seconds at most.
 *
 * @param {number} seconds
 * @returns {Promise<boolean>}
 */
export async function hasChanged(seconds) {
  try {
    const { body } = await read(`-/changes?${new URLSearchParams({ since: token ?? "", wait_s: String(seconds) })}`);
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
