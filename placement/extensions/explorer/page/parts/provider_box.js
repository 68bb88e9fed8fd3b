/** A provider as a box, and a tree as boxes: drawn the same way wherever there is one. */

import { h } from "../dom.js";
import { capacity } from "../model/fullness.js";
import { amounts, counted, sortClasses } from "../model/units.js";
import { OUT_OF_SERVICE } from "../model/traits.js";
import { fillBar } from "./fill_bar.js";
import { providerName } from "./provider_menu.js";

/** @typedef {import("../model/types.js").Provider} Provider */
/** @typedef {import("../model/types.js").Tree} Tree */

/** More providers below one would push it out of the window. */
const TALL = 10;

/**
 * @typedef {object} Look what to draw of a tree
 * @property {Record<string, Record<string, number>>} [asked] amounts by provider that a candidate takes
 * @property {Record<string, Record<string, number>>} [held] amounts by provider that a consumer has
 * @property {Record<string, string[]>} [groups] suffixes of the groups by provider that it serves
 * @property {string} [marked] uuid of the provider that the view is about
 * @property {boolean} [brief] only what is asked: no traits, no aggregates, other providers small
 * @property {(provider: Provider) => Node | null} [more] what else a box holds
 * @property {string} [key]
 */

/**
 * @param {Provider} provider
 * @param {Look} [look]
 */
export function providerBox(provider, look = {}) {
  const asked = look.asked?.[provider.uuid];
  const held = look.held?.[provider.uuid];
  const taken = asked ?? held;
  const quiet = look.brief && !taken;
  const names = sortClasses(Object.keys(look.brief && taken ? taken : provider.inventories));
  const groups = look.groups?.[provider.uuid] ?? [];
  const marked = provider.uuid === look.marked;
  const classes = [["provider-box", true], ["taken", taken], ["quiet", quiet], ["marked", marked]]
    .filter(([, on]) => on).map(([name]) => name).join(" ");
  return h("article", { class: classes },
    h("header", {}, providerName(provider, `${look.key ?? ""}${provider.uuid}`),
      groups.map((suffix) => h("span.group-tag", {}, suffix || "request")),
      serviceTag(provider.traits.includes(OUT_OF_SERVICE))),
    !quiet && names.map((name) => bar(name, provider, asked)),
    held && h("p.held", {}, `holds ${amounts(held)}`),
    !look.brief && properties(provider),
    look.more?.(provider));
}

/** @param {boolean} isOut whether the host takes nothing new */
export function serviceTag(isOut) {
  return isOut && h("span.service-tag", { title: `It has the trait ${OUT_OF_SERVICE}: nothing new comes here.` }, "out of service");
}

/**
 * @param {string} name
 * @param {Provider} provider
 * @param {Record<string, number>} [asked]
 */
function bar(name, { inventories }, asked) {
  const inventory = inventories[name];
  return inventory && fillBar(name, {
    ...inventory, capacity: capacity(inventory), asked: asked?.[name] });
}

/** @param {Provider} provider */
function properties({ uuid, inventories, traits, aggregates, generation }) {
  const parts = [];
  if (!Object.keys(inventories).length) parts.push(h("small", {}, "no inventory"));
  if (traits.length) parts.push(chips(counted(traits.length, "trait"), traits, `traits ${uuid}`));
  if (aggregates.length) {
    parts.push(chips(counted(aggregates.length, "aggregate"), aggregates, `aggregates ${uuid}`));
  }
  return h("div.properties", {}, parts, h("small", {}, `generation ${generation}`));
}

/**
 * @param {string} title
 * @param {string[]} names
 * @param {string} key
 */
function chips(title, names, key) {
  return h("details.chips", { "data-key": key }, h("summary", {}, title),
    h("ul", {}, [...names].sort().map((name) => h("li", {}, h("code", {}, name)))));
}

/**
 * A tree: nested lists, so that it reads in order without its lines.
 *
 * @param {Tree} tree
 * @param {Look} [look]
 */
export function drawnTree(tree, look = {}) {
  const { list, boxes } = growingTree(tree, look);
  while (!boxes.next().done);
  return list;
}

/**
 * The list of a tree that has no box yet, and what adds them one by one when it is gone through.
 *
 * @param {Tree} tree
 * @param {Look} [look]
 */
export function growingTree(tree, look = {}) {
  /** @type {Map<string | null, Provider[]>} */
  const children = new Map();
  const here = new Set(tree.providers.map((it) => it.uuid));
  for (const provider of tree.providers) {
    const parent = provider.parent && here.has(provider.parent) ? provider.parent : null;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent)?.push(provider);
  }
  /** @param {Element} list @param {Provider[]} providers @returns {Generator<Element>} */
  function* branches(list, providers) {
    for (const provider of providers) {
      const branch = h("li", {}, providerBox(provider, look));
      list.append(branch);
      yield branch;
      const below = children.get(provider.uuid);
      if (!below) continue;
      const inner = h("ul");
      branch.append(inner);
      yield* branches(inner, below.sort(byName));
    }
  }
  const kind = look.brief ? "ul.drawn-tree.brief" : "ul.drawn-tree";
  const tall = [...children.values()].some((it) => it.length > TALL);
  const list = h(tall ? `${kind}.tall` : kind);
  return { list, boxes: branches(list, children.get(null) ?? []) };
}

/** @param {Provider} a @param {Provider} b */
function byName(a, b) {
  return a.name.localeCompare(b.name, "en", { numeric: true });
}
