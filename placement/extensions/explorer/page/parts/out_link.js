/** The way out of this page to where a consumer or a project lives. */

import { h } from "../dom.js";
import { addressElsewhere } from "../model/links.js";

/**
 * A link beside the name, in a tab of its own; nothing where no template is configured.
 *
 * @param {import("../model/links.js").LinkedKind} kind
 * @param {string} name
 */
export function outLink(kind, name) {
  const href = addressElsewhere(kind, name);
  return href !== null && h("a.out", { href, target: "_blank", rel: "noopener noreferrer",
    "data-key": `out ${kind} ${name}`, title: new URL(href).host,
    "aria-label": `${kind} ${name} where it lives, in a new tab` }, "↗");
}
