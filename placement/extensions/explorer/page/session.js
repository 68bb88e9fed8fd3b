/** The token, which this tab keeps until it is closed. */

import { ofTab } from "./storage.js";

const KEY = "placement-token";
const ACCEPTED = "placement-token-accepted";

export const session = {
  /** @returns {string} */
  get token() {
    return ofTab.get(KEY) ?? "";
  },

  /** @param {string} value */
  begin(value) {
    ofTab.set(KEY, value.trim());
    ofTab.set(ACCEPTED, "");
  },

  /** Whether the service has accepted this token at least once. */
  get wasAccepted() {
    return Boolean(ofTab.get(ACCEPTED));
  },

  /** Note that the service has accepted this token. */
  accept() {
    if (!this.wasAccepted) ofTab.set(ACCEPTED, "yes");
  },

  /** Forget the token, and what else this tab has kept. */
  end() {
    ofTab.clear();
  },
};
