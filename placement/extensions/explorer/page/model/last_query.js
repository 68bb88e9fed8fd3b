/** The last question that was asked, so that other views can start from it. */

let text = "";

/** @param {string} query with the parameters of a candidate query alone */
export function rememberQuery(query) {
  text = query;
}

/** @returns {string} */
export function lastQuery() {
  return text;
}
