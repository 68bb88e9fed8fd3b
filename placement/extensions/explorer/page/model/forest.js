/**
 * All trees of the cloud, read in pages and kept as short rows.
 *
 * Every page is asked for again under its tag, so that a cloud that stands still costs little. Work
 * is done in slices between which the page breathes.
 */

import { inSlices } from "../dom.js";
import { read } from "../api.js";
import { capacity, fullest, level, ratio, sumByClass } from "./fullness.js";
import { OUT_OF_SERVICE } from "./traits.js";

/** @typedef {import("./types.js").Tree} Tree */
/** @typedef {import("./types.js").TreePage} TreePage */
/** @typedef {import("./fullness.js").Sum} Sum */

/**
 * @typedef {object} Over one inventory that is used beyond what there is
 * @property {string} uuid
 * @property {string} name
 * @property {string} resourceClass
 * @property {number} used
 * @property {number} capacity
 */
/**
 * @typedef {object} Row what the page keeps of a tree
 * @property {string} root
 * @property {string} name
 * @property {number} providers
 * @property {string | null} fullestClass
 * @property {number} ratio of the fullest class
 * @property {number} mean of the ratios of all its classes
 * @property {number} level
 * @property {Map<string, Sum>} sums
 * @property {Set<string>} traits of all its providers
 * @property {Set<string>} aggregates
 * @property {string} names of all its providers, a line each
 * @property {Over[]} over
 * @property {boolean} outOfService
 */
/**
 * @typedef {object} Page
 * @property {string | null} after
 * @property {number} limit
 * @property {string | null} tag
 * @property {string | null} next
 * @property {any[]} rows
 */

const FIRST_PAGE = 100;
const LARGEST_PAGE = 1000;
/** A page whose text is about this long is parsed without a visible pause. */
const PAGE_CHARACTERS = 400_000;

/**
 * The cloud in pages.
 *
 * @template Kept
 */
export class Forest {
  /**
   * @param {(tree: Tree) => Kept} keep what to remember of a tree
   * @param {Record<string, string>} [params] of every page
   */
  constructor(keep, params = {}) {
    this.keep = keep;
    this.params = params;
    /** @type {Page[]} */
    this.pages = [];
    this.limit = FIRST_PAGE;
    /** Whether all pages have been read. */
    this.whole = false;
    /** Grows with every page that changes, also if reading ends half-way. */
    this.version = 0;
  }

  /** @returns {Kept[]} */
  get rows() {
    return this.pages.flatMap((page) => page.rows);
  }

  /**
   * Read every page that is new or has changed.
   *
   * @param {AbortSignal} signal
   * @param {() => void} progress called after every page that changed
   */
  async refresh(signal, progress) {
    /** @type {string | null} */
    let after = null;
    for (let index = 0; ; index += 1) {
      /** @type {Page | null} */
      const known = this.pages[index]?.after === after ? this.pages[index] : null;
      /** @type {Page} */
      const page = await this.#readPage(after, known, signal);
      if (page !== known) {
        this.pages[index] = page;
        this.version += 1;
        progress();
      }
      after = page.next;
      if (after === null) {
        if (this.pages.length > index + 1) this.version += 1;
        this.pages.length = index + 1;
        this.whole = true;
        return;
      }
    }
  }

  /**
   * @param {string | null} after
   * @param {Page | null} known
   * @param {AbortSignal} signal
   * @returns {Promise<Page>}
   */
  async #readPage(after, known, signal) {
    const limit = known?.limit ?? this.limit;
    const params = new URLSearchParams({ ...this.params, limit: String(limit) });
    if (after) params.set("after", after);
    const answer = await read(`-/trees?${params}`, { tag: known?.tag, signal });
    if (!answer.changed && known) return known;
    /** @type {TreePage} */
    const body = answer.body;
    /** @type {Kept[]} */
    const rows = [];
    await inSlices(body.trees, (tree) => rows.push(this.keep(tree)), signal);
    if (!known) this.#learnPageSize(body.trees);
    return { after, limit, tag: answer.tag, next: body.next ?? null, rows };
  }

  /** @param {Tree[]} trees */
  #learnPageSize(trees) {
    if (!trees.length) return;
    const sample = trees.slice(0, 10);
    const each = JSON.stringify(sample).length / sample.length;
    const fitting = Math.floor(PAGE_CHARACTERS / each);
    this.limit = Math.max(10, Math.min(LARGEST_PAGE, this.limit * 4, fitting));
  }
}

/**
 * @param {Tree} tree
 * @returns {Row}
 */
export function rowOf(tree) {
  const root = tree.providers[0];
  const sums = sumByClass(tree.providers);
  const most = fullest(sums);
  const over = [];
  for (const provider of tree.providers) {
    for (const [resourceClass, inventory] of Object.entries(provider.inventories)) {
      const room = capacity(inventory);
      if (inventory.used <= room) continue;
      const { uuid, name } = provider;
      over.push({ uuid, name, resourceClass, used: inventory.used, capacity: room });
    }
  }
  return {
    root: tree.root,
    name: root.name,
    providers: tree.providers.length,
    fullestClass: most.name,
    ratio: most.ratio,
    mean: mean(sums),
    level: level(over.length ? 2 : most.ratio),
    sums,
    traits: new Set(tree.providers.flatMap((it) => it.traits)),
    aggregates: new Set(tree.providers.flatMap((it) => it.aggregates)),
    names: tree.providers.map((it) => it.name).join("\n"),
    over,
    outOfService: root.traits.includes(OUT_OF_SERVICE),
  };
}

/** @param {Map<string, Sum>} sums */
function mean(sums) {
  let sum = 0;
  for (const { used, capacity: room } of sums.values()) sum += Math.min(2, ratio(used, room));
  return sums.size ? sum / sums.size : 0;
}

/**
 * The ratio of one class in a row, or of its fullest class.
 *
 * @param {Row} row
 * @param {string} resourceClass "" for the fullest
 */
export function ratioOf(row, resourceClass) {
  if (!resourceClass) return row.ratio;
  const sum = row.sums.get(resourceClass);
  return sum ? ratio(sum.used, sum.capacity) : -1;
}
