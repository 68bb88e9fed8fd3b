/** The last question that was asked, so that other views can start from it. */

let text = "";

/** @param {string} query without what is no part of a candidate query */
export function rememberQuery(query) {
  text = query;
}

/** @returns {string} */
export function lastQuery() {
  return text;
}
