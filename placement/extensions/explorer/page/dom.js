/** Building elements. Data only ever becomes text, attributes or properties, never markup. */

/** @typedef {Node | string | number | false | null | undefined} Child */
/** @typedef {Record<string, unknown>} Props */

/**
 * Make an element.
 *
 * @param {string} kind the tag, and classes after dots: "div.card.wide"
 * @param {Props} [props] attributes; `onclick` and the like are listeners, names that begin with
 *   `--` are variables of the style sheet, true is an empty attribute, false and null are none
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(kind, props = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(props)) setProp(element, name, value);
  element.append(...kept(children));
  return element;
}

/**
 * @param {HTMLElement} element
 * @param {string} name
 * @param {unknown} value
 */
function setProp(element, name, value) {
  if (value === false || value === null || value === undefined) return;
  if (typeof value === "function") {
    element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
  } else if (name.startsWith("--")) {
    element.style.setProperty(name, String(value));
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * @param {(Child | Child[])[]} children
 * @returns {(Node | string)[]}
 */
function kept(children) {
  /** @type {(Node | string)[]} */
  const found = [];
  for (const child of children.flat()) {
    if (child === false || child === null || child === undefined) continue;
    found.push(typeof child === "number" ? String(child) : child);
  }
  return found;
}

/**
 * Make an element of a drawing.
 *
 * @param {string} kind as of `h`
 * @param {Record<string, string | number>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...kept(children));
  return element;
}

/**
 * Replace what an element holds. The focus and open details with a `data-key` survive.
 *
 * @param {Element} container
 * @param {...(Child | Child[])} children
 */
export function refill(container, ...children) {
  const active = document.activeElement;
  const key = active && container.contains(active) ? active.getAttribute("data-key") : null;
  const open = [...container.querySelectorAll("details[open][data-key]")].map(keyOf);
  container.replaceChildren(...kept(children));
  for (const details of container.querySelectorAll("details[data-key]")) {
    if (open.includes(keyOf(details))) details.setAttribute("open", "");
  }
  if (key !== null) {
    const next = [...container.querySelectorAll("[data-key]")].find((it) => keyOf(it) === key);
    if (next instanceof HTMLElement) next.focus({ preventScroll: true });
  }
}

/** @param {Element} element */
function keyOf(element) {
  return element.getAttribute("data-key");
}

/**
 * Put text on the clipboard; false where the browser does not let this page, which is so without HTTPS.
 *
 * @param {string} text
 * @returns {Promise<boolean>}
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

const SLICE_MS = 8;

/**
 * Do something with each of many, in slices between which the page breathes.
 *
 * @template Item
 * @param {Iterable<Item>} items
 * @param {(item: Item) => void} work
 * @param {AbortSignal} signal
 */
export async function inSlices(items, work, signal) {
  let started = performance.now();
  for (const item of items) {
    work(item);
    if (performance.now() - started > SLICE_MS) {
      await breathe();
      signal.throwIfAborted();
      started = performance.now();
    }
  }
}

/**
 * Let the page breathe: returns when input and painting have had their turn.
 *
 * @returns {Promise<void>}
 */
export function breathe() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
