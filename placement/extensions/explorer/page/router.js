/** The address of a view: #/VIEW/ARGUMENT?PARAMETERS. Sharing the address shares the view. */

export const VIEWS = /** @type {const} */ (["cloud", "tree", "search", "capacity", "plan", "outlook", "owners"]);
/** @typedef {typeof VIEWS[number]} ViewName */
/** @typedef {{view: ViewName, argument: string, params: URLSearchParams}} Place */

/**
 * @param {string} [hash]
 * @returns {Place}
 */
export function currentPlace(hash = location.hash) {
  const [path, query = ""] = split(hash.replace(/^#\/?/, ""));
  const [view, argument = ""] = path.split("/");
  const known = VIEWS.find((name) => name === view) ?? "cloud";
  return { view: known, argument: decode(argument), params: new URLSearchParams(query) };
}

/** @param {string} text */
function split(text) {
  const at = text.indexOf("?");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * @param {ViewName} view
 * @param {string} [argument]
 * @param {URLSearchParams | Record<string, string>} [params]
 */
export function address(view, argument = "", params = {}) {
  const query = readable(new URLSearchParams(params));
  return `#/${view}${argument && `/${encodeURIComponent(argument)}`}${query && `?${query}`}`;
}

/**
 * A query string in which colons, commas and exclamation marks stay what they are.
 *
 * @param {URLSearchParams} params
 */
export function readable(params) {
  return params.toString().replace(/%(3A|2C|21)/g, (code) => decodeURIComponent(code));
}

/**
 * Go somewhere; `replace` leaves no step to go back to.
 *
 * @param {string} to
 * @param {{replace?: boolean}} [how]
 */
export function go(to, { replace = false } = {}) {
  if (to === location.hash) return;
  if (replace) {
    history.replaceState(null, "", to);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = to;
  }
}
