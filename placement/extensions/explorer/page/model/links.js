/** Where consumers and projects live outside this page: [insight]/link_consumer and link_project. */

import { read, Refusal } from "../api.js";

/** @typedef {"consumer" | "project"} LinkedKind */

/** @type {Partial<Record<LinkedKind, string>> | null} */
let templates = null;

/**
 * Read the templates once. Who may not see trees has no consumer to follow either, and an older service knows none.
 *
 * @param {AbortSignal} signal
 */
export async function readLinks(signal) {
  if (templates) return;
  try {
    templates = (await read("-/links", { signal })).body;
  } catch (error) {
    if (!(error instanceof Refusal && [403, 404].includes(error.status))) throw error;
    templates = {};
  }
}

export function forgetLinks() {
  templates = null;
}

/**
 * The address of a consumer or a project, null where none is known.
 *
 * @param {LinkedKind} kind
 * @param {string} name
 */
export function addressElsewhere(kind, name) {
  const template = templates?.[kind];
  // Two names that every browser takes for a step up in the path, however they are escaped.
  if (!template || !name || name === "." || name === "..") return null;
  const url = template.replaceAll(`{${kind}}`, () => encodeURIComponent(name));
  // The service has checked the template; that a link runs a script is not left to one check.
  return /^https?:\/\//i.test(url) ? url : null;
}
