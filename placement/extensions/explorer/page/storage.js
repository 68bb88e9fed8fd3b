/**
 * What the browser keeps for this page: the token and the last trees until the tab is closed, the colours for good.
 * No other module stores anything. A browser that stores nothing keeps it all until the page is loaded anew.
 */

/* eslint-disable no-restricted-globals */

/** @typedef {{get: (key: string) => string | null, set: (key: string, value: string) => void, clear: () => void}} Kept */

/**
 * @param {() => Storage} storage which throws where it is forbidden
 * @returns {Kept}
 */
function keptIn(storage) {
  /** @type {Map<string, string>} */
  const memory = new Map();
  const tried = (/** @type {(found: Storage) => string | null | void} */ work) => {
    try {
      return work(storage()) ?? null;
    } catch {
      return null;
    }
  };
  return {
    get: (key) => memory.get(key) ?? tried((found) => found.getItem(key)),
    set(key, value) {
      memory.set(key, value);
      tried((found) => found.setItem(key, value));
    },
    clear() {
      memory.clear();
      tried((found) => found.clear());
    },
  };
}

/** Until the tab is closed. */
export const ofTab = keptIn(() => sessionStorage);

/** For good. */
export const ofBrowser = keptIn(() => localStorage);
