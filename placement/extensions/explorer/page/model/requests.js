/** The rows of the history gathered by the requests that wrote them. */

/** @typedef {import("./types.js").Written} Written */
/** @typedef {"begins" | "confirmed" | "expired" | ""} HoldEvent what a request did to a hold; "" for nothing that is known */
/**
 * @typedef {object} ConsumerWrite what one request did to one consumer
 * @property {string} uuid
 * @property {Written[]} writes one for each provider
 * @property {HoldEvent} hold
 */

const CONFIRMATIONS = ["/-/claims/confirm", "/-/claims/{consumer_uuid}/confirm"];
const EXPIRY = "expiry of holds";
/** A plan writes nothing but holds. */
const PLANS = "/-/plans";
const CLAIMS = "/-/claims";

/** Requests, newest first, from one page of rows after the other. */
export class Requests {
  /** @type {Written[]} rows of a request that may have more of them on the next page */
  #left = [];
  /** @type {Set<string>} consumers that were held after the next row of theirs */
  #held;

  /** @param {Iterable<string>} held the consumers that have a hold now */
  constructor(held) {
    this.#held = new Set(held);
  }

  /**
   * Return the rows of each request that is complete.
   *
   * @param {Written[]} page
   * @param {boolean} last whether there is no other page
   * @returns {Written[][]}
   */
  add(page, last) {
    /** @type {Map<string, Written[]>} */
    const found = new Map();
    for (const written of [...this.#left, ...page]) {
      const key = keyOf(written);
      found.set(key, [...found.get(key) ?? [], written]);
    }
    this.#left = [];
    // A request that fills the page alone is shown at once.
    if (!last && found.size > 1) {
      const key = keyOf(page[page.length - 1]);
      this.#left = found.get(key) ?? [];
      found.delete(key);
    }
    return [...found.values()];
  }

  /**
   * Return what a request did to each consumer. Requests must come as `add` returns them, each once: a row does
   * not say whether its claim was held, but what follows it does.
   *
   * @param {Written[]} writes of one request
   * @returns {ConsumerWrite[]}
   */
  consumers(writes) {
    /** @type {Map<string, Written[]>} */
    const found = new Map();
    for (const written of writes) {
      if (written.consumer_uuid === null) continue;
      found.set(written.consumer_uuid, [...found.get(written.consumer_uuid) ?? [], written]);
    }
    return [...found].map(([uuid, mine]) => ({ uuid, writes: mine, hold: this.#holdEvent(uuid, mine[0].route) }));
  }

  /** @param {string} uuid @param {string | null} route @returns {HoldEvent} */
  #holdEvent(uuid, route) {
    // Any write of a held consumer ends its hold: the row before it is the one that began it.
    const held = this.#held.delete(uuid);
    const confirmed = CONFIRMATIONS.includes(route ?? "");
    if (confirmed || route === EXPIRY) {
      this.#held.add(uuid);
      return confirmed ? "confirmed" : "expired";
    }
    return route === PLANS || (held && route === CLAIMS) ? "begins" : "";
  }
}

/**
 * The service removes expired holds within a request of somebody: that is not the request's own write.
 *
 * @param {Written} written
 */
function keyOf({ at, request_id: request, method, route }) {
  return JSON.stringify([request ?? at, method, route]);
}
