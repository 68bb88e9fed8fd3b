/** How full something is: the arithmetic of capacity, and the one scale of colour. */

/** @typedef {import("./types.js").Inventory} Inventory */
/** @typedef {import("./types.js").Provider} Provider */

export const LEVELS = 10;
export const OVER = LEVELS + 1;

/**
 * What can be allocated of an inventory at all (specification 02 section 5).
 *
 * @param {Pick<Inventory, "total" | "reserved" | "allocation_ratio">} inventory
 */
export function capacity(inventory) {
  return Math.floor((inventory.total - inventory.reserved) * inventory.allocation_ratio);
}

/**
 * The part in use; more than 1 where more is used than there is.
 *
 * @param {number} used
 * @param {number} room
 */
export function ratio(used, room) {
  if (used === 0) return 0;
  return room > 0 ? used / room : Infinity;
}

/**
 * The step on the scale: 0 is empty, LEVELS is full, OVER is over capacity.
 *
 * @param {number} value a ratio
 */
export function level(value) {
  if (value > 1) return OVER;
  if (value <= 0) return 0;
  return Math.max(1, Math.floor(value * LEVELS + 1e-9));
}

/**
 * The colour of a level as the style sheet has it, for attributes.
 *
 * @param {number} step
 */
export function colour(step) {
  return step === OVER ? "var(--over)" : `var(--full-${step})`;
}

/** @typedef {{capacity: number, used: number, reserved: number, total: number}} Sum */

/**
 * Sum the inventories of providers by class.
 *
 * @param {Provider[]} providers
 * @param {Map<string, Sum>} [sums] to add to
 * @returns {Map<string, Sum>}
 */
export function sumByClass(providers, sums = new Map()) {
  for (const provider of providers) {
    for (const name in provider.inventories) {
      const inventory = provider.inventories[name];
      const sum = sums.get(name) ?? { capacity: 0, used: 0, reserved: 0, total: 0 };
      sum.capacity += Math.max(0, capacity(inventory));
      sum.used += inventory.used;
      sum.reserved += inventory.reserved;
      sum.total += inventory.total;
      sums.set(name, sum);
    }
  }
  return sums;
}

/**
 * The class of which the largest part is in use.
 *
 * @param {Map<string, Sum>} sums
 * @returns {{name: string | null, ratio: number}}
 */
export function fullest(sums) {
  /** @type {{name: string | null, ratio: number}} */
  let most = { name: null, ratio: 0 };
  for (const [name, sum] of sums) {
    const value = ratio(sum.used, sum.capacity);
    if (most.name === null || value > most.ratio) most = { name, ratio: value };
  }
  return most;
}
