/** Requests to the service that this page came from, and to nothing else. */

import { session } from "./session.js";

/** The root of the API: the page lives at ROOT/-/explorer/. */
export const ROOT = new URL("../../", document.baseURI);
export const MICROVERSION = "1.39";

/** An answer that is not a success, or the lack of an answer. */
export class Refusal extends Error {
  /**
   * @param {number} status 0 without an answer
   * @param {string} detail
   * @param {any} [error] the error of the document, with what it has beside its text
   */
  constructor(status, detail, error = {}) {
    super(detail || `Status ${status}`);
    this.status = status;
    this.detail = detail;
    this.error = error;
  }

  /** What went wrong, as a name that does not change. @returns {string} */
  get code() {
    return this.error.code ?? "";
  }

  /** Whether there was no answer, or the service cannot serve now. */
  get away() {
    return this.status === 0 || this.status >= 502;
  }

  /** The policy rule that refused, if the answer names one. */
  get rule() {
    return /placement:[\w:-]+/.exec(this.detail)?.[0] ?? null;
  }
}

/**
 * @typedef {object} Answer
 * @property {boolean} changed false: as it was under the tag that was sent
 * @property {any} body null where nothing changed
 * @property {string | null} tag
 */

/**
 * Read a path below the root of the API.
 *
 * @param {string} path without the leading slash
 * @param {{tag?: string | null, signal?: AbortSignal}} [options] tag: of the answer that is known
 * @returns {Promise<Answer>}
 */
export async function read(path, { tag, signal } = {}) {
  const response = await send("GET", path, tag ? { "If-None-Match": tag } : {}, undefined, signal);
  if (response.status === 304) return { changed: false, body: null, tag: tag ?? null };
  return { changed: true, body: nameAll(await json(response)), tag: response.headers.get("ETag") };
}

/**
 * A provider whose name is empty, which the API allows, is called by its uuid: it must have a link.
 *
 * @param {any} body
 */
function nameAll(body) {
  for (const tree of body?.trees ?? []) for (const it of tree.providers ?? []) it.name ||= it.uuid;
  return body;
}

/**
 * Send a question that needs a body.
 *
 * @param {string} path
 * @param {object} body
 * @param {AbortSignal} [signal]
 */
export async function ask(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return json(await send("POST", path, headers, JSON.stringify(body), signal));
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Record<string, string>} more headers
 * @param {string} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
async function send(method, path, more, body, signal) {
  /** @type {Record<string, string>} */
  const headers = {
    Accept: "application/json",
    "OpenStack-API-Version": `placement ${MICROVERSION}`,
    ...more,
  };
  if (session.token) headers["X-Auth-Token"] = session.token;
  let response;
  try {
    response = await fetch(new URL(path, ROOT), {
      method, headers, body, signal, cache: "no-store", credentials: "omit", redirect: "error",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refusal(0, "");
  }
  if (!response.ok && response.status !== 304) throw await refusal(response);
  return response;
}

/** @param {Response} response */
async function json(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refusal(error instanceof SyntaxError ? response.status : 0, "The answer is not JSON.");
  }
}

/**
 * @param {Response} response
 * @returns {Promise<Refusal>}
 */
async function refusal(response) {
  const text = await response.text().catch(() => "");
  try {
    const error = JSON.parse(text).errors?.[0] ?? {};
    const detail = String(error.detail ?? "");
    // The service puts a general sentence first, and what it is about after an empty line.
    const parts = detail.split("\n\n");
    return new Refusal(response.status, (parts[parts.length - 1] || detail).trim(), error);
  } catch {
    return new Refusal(response.status, "");
  }
}

/**
 * Whether an error is the end of a request that was aborted.
 *
 * @param {unknown} error
 */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}
