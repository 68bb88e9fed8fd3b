/** The token, which lives in this module, and so in the memory of this tab alone. */

let token = "";

export const session = {
  /** @returns {string} */
  get token() {
    return token;
  },

  /** @param {string} value */
  begin(value) {
    token = value.trim();
  },

  end() {
    token = "";
  },
};
