/** The token, which this tab keeps until it is closed. */

import { ofTab } from "./storage.js";

const KEY = "placement-token";

export const session = {
  /** @returns {string} */
  get token() {
    return ofTab.get(KEY) ?? "";
  },

  /** @param {string} value */
  begin(value) {
    ofTab.set(KEY, value.trim());
  },

  /** Forget the token, and what else this tab has kept. */
  end() {
    ofTab.clear();
  },
};
