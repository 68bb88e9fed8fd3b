/** One tree: every provider as a box, the providers that share with it, and its consumers. */

import { read } from "../api.js";
import { h, inSlices, refill } from "../dom.js";
import { cloud } from "../model/cloud.js";
import { lastTrees, rememberTree } from "../model/last_trees.js";
import { OUT_OF_SERVICE, SHARING } from "../model/traits.js";
import { amounts, count, counted } from "../model/units.js";
import { activity } from "../parts/activity.js";
import { consumerTable } from "../parts/consumer_table.js";
import { growingTree, providerBox, serviceTag } from "../parts/provider_box.js";
import { menuButton } from "../parts/provider_menu.js";
import { emptyCloud, stateNote } from "../parts/state_note.js";
import { address, go } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/types.js").Tree} Tree */
/** @typedef {import("../model/types.js").Provider} Provider */

const MOST_CHOICES = 60;

/** The view of the tree of one provider. */
export class TreeView extends View {
  heading = "Tree";
  /** @type {string | null} */
  #tag = null;
  #shown = "";
  /** @type {Provider[]} */
  #sharing = [];

  /** @param {AbortSignal} signal @param {boolean} again */
  async load(signal, again) {
    if (!this.argument) return this.#find(signal);
    if (this.#shown !== this.argument) {
      this.#tag = null;
      this.drawn = false;
    }
    this.showLoading("Reading the tree …");
    const path = `-/trees/${encodeURIComponent(this.argument)}?allocations=true`;
    const answer = await read(path, { tag: this.#tag, signal });
    if (!answer.changed) return undefined;
    /** @type {Tree} */
    const tree = answer.body.trees[0];
    this.#sharing = await sharingProviders(tree, signal);
    this.#shown = this.argument;
    // An aborted drawing leaves no tag, so that the tree is read again.
    this.#tag = null;
    await this.#draw(tree, again, signal);
    this.#tag = answer.tag;
    return undefined;
  }

  /** @param {Tree} tree @param {boolean} again @param {AbortSignal} signal */
  async #draw(tree, again, signal) {
    const root = tree.providers[0];
    this.heading = root.name;
    rememberTree(root);
    const consumers = consumersOf(tree);
    const { list, boxes } = growingTree(tree, {
      marked: this.argument === tree.root ? undefined : this.argument });
    const grown = () => inSlices(boxes, () => {}, signal);
    // What is looked at changes at once; what was not there before may be seen growing.
    if (again) await grown();
    refill(this,
      h("h1", {}, root.name, menuButton(root, "title")),
      h("p.summary", {}, [counted(tree.providers.length, "provider"),
        counted(consumers.length, "consumer"), root.uuid].join(" · "),
      " ", serviceTag(root.traits.includes(OUT_OF_SERVICE))),
      h("div.scroller.tree-place", { tabindex: "0", role: "group", "aria-label": "The tree" }, list),
      this.#sharing.length > 0 && h("section", {}, h("h2", {}, "Shares with it"),
        h("p.calm", {}, "Through a common aggregate these give resources to this tree."),
        h("div.shared", {}, this.#sharing.map((provider) => providerBox(provider)))),
      h("section", {}, h("h2", {}, "Consumers"), consumers.length
        ? [h("p", {}, h("a", { href: address("plan", "", { empty: root.uuid }) }, "Empty this host"),
          ": what must move, and where to."), consumerTable(consumers)]
        : h("p.calm", {}, "No consumer holds anything of this tree.")),
      activity({ provider: this.argument }, consumers.filter((it) => it.claimed?.held_until).map((it) => it.uuid)));
    if (again) return;
    window.scrollTo(0, 0);
    await grown();
  }

  /** @param {AbortSignal} signal */
  async #find(signal) {
    const name = this.params.get("name") ?? "";
    this.#shown = "";
    this.heading = "Tree";
    if (name) {
      const { body } = await read(`-/trees?${new URLSearchParams({ name })}`, { signal });
      if (body.trees.length) {
        const found = body.trees[0].providers.find((/** @type {Provider} */ it) => it.name === name);
        return go(address("tree", found.uuid), { replace: true });
      }
    }
    this.showLoading("Reading the trees …");
    await cloud().refresh(signal, () => {});
    const part = name.toLowerCase();
    const rows = cloud().rows.filter((row) => row.names.toLowerCase().includes(part));
    rows.sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
    const last = lastTrees();
    refill(this, h("h1", {}, "Tree"),
      name && stateNote("∅", "No provider has this name", [
        rows.length ? "Names are compared exactly. These trees have a part of it in a name:"
          : "Nor has any a part of it in its name."]),
      !name && h("p.calm", {}, "Type the name or UUID of a provider into the box above; the key ",
        h("kbd", {}, "/"), " leads to it.", rows.length > 0 && " Or choose:"),
      !cloud().rows.length && emptyCloud(),
      !name && last.length > 0 && h("section.panel.choices", { "aria-label": "Seen last" },
        h("h2", {}, "Seen last"), treeLinks(last)),
      rows.length > 0 && h("section.panel.choices", { "aria-label": "Trees" }, h("h2", {}, "Trees"),
        treeLinks(rows.slice(0, MOST_CHOICES).map((row) => ({ uuid: row.root, name: row.name }))),
        rows.length > MOST_CHOICES && h("p.calm", {}, `and ${count(rows.length - MOST_CHOICES)} more: `,
          h("a", { href: address("cloud", "", name ? { name } : {}) }, "see all in the cloud"))));
    return undefined;
  }
}

/** @param {import("../model/last_trees.js").Seen[]} trees */
function treeLinks(trees) {
  return h("ul.tree-links", {}, trees.map(({ uuid, name }) =>
    h("li", {}, h("a", { href: address("tree", uuid) }, name))));
}

/**
 * The providers of other trees that share with a provider of this tree.
 *
 * @param {Tree} tree
 * @param {AbortSignal} signal
 * @returns {Promise<Provider[]>}
 */
async function sharingProviders(tree, signal) {
  const aggregates = [...new Set(tree.providers.flatMap((it) => it.aggregates))];
  if (!aggregates.length) return [];
  const params = new URLSearchParams({
    required: SHARING, member_of: `in:${aggregates.slice(0, 50).join(",")}` });
  /** @type {Tree[]} */
  const trees = (await read(`-/trees?${params}`, { signal })).body.trees;
  return trees.filter((it) => it.root !== tree.root).flatMap((it) => it.providers).filter(
    (it) => it.traits.includes(SHARING) && it.aggregates.some((one) => aggregates.includes(one)));
}

/**
 * @param {Tree} tree
 * @returns {import("../parts/consumer_table.js").Consumer[]}
 */
function consumersOf(tree) {
  /** @type {Map<string, import("../parts/consumer_table.js").Consumer>} */
  const found = new Map();
  for (const provider of tree.providers) {
    for (const [uuid, allocation] of Object.entries(provider.allocations ?? {})) {
      const consumer = found.get(uuid) ?? {
        uuid, type: allocation.type, project: allocation.project,
        user: allocation.user, resources: {}, places: [], claimed: allocation };
      for (const [name, value] of Object.entries(allocation.resources)) {
        consumer.resources[name] = (consumer.resources[name] ?? 0) + value;
      }
      consumer.places.push(`${provider.name}: ${amounts(allocation.resources)}`);
      found.set(uuid, consumer);
    }
  }
  return [...found.values()];
}
