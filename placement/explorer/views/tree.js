/** One tree: every provider as a box, the providers that share with it, and its consumers. */

import { read } from "../api.js";
import { h, inSlices, refill } from "../dom.js";
import { amounts, counted } from "../model/units.js";
import { consumerTable } from "../parts/consumer_table.js";
import { growingTree, providerBox } from "../parts/provider_box.js";
import { menuButton } from "../parts/provider_menu.js";
import { stateNote } from "../parts/state_note.js";
import { address, go } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/types.js").Tree} Tree */
/** @typedef {import("../model/types.js").Provider} Provider */

const SHARING = "MISC_SHARES_VIA_AGGREGATE";

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
    const consumers = consumersOf(tree);
    const { list, boxes } = growingTree(tree, {
      marked: this.argument === tree.root ? undefined : this.argument });
    const grown = () => inSlices(boxes, () => {}, signal);
    // What is looked at changes at once; what was not there before may be seen growing.
    if (again) await grown();
    refill(this,
      h("h1", {}, root.name, menuButton(root, "title")),
      h("p.summary", {}, [counted(tree.providers.length, "provider"),
        counted(consumers.length, "consumer"), root.uuid].join(" · ")),
      h("div.scroller.tree-place", { tabindex: "0", role: "group", "aria-label": "The tree" }, list),
      this.#sharing.length > 0 && h("section", {}, h("h2", {}, "Shares with it"),
        h("p.calm", {}, "Through a common aggregate these give resources to this tree."),
        h("div.shared", {}, this.#sharing.map((provider) => providerBox(provider)))),
      h("section", {}, h("h2", {}, "Consumers"), consumers.length
        ? consumerTable(consumers) : h("p.calm", {}, "No consumer holds anything of this tree.")));
    if (again) return;
    window.scrollTo(0, 0);
    await grown();
  }

  /** @param {AbortSignal} signal */
  async #find(signal) {
    const name = this.params.get("name") ?? "";
    const input = /** @type {HTMLInputElement} */ (h("input", {
      type: "search", value: name, id: "tree-name", required: true, autocomplete: "off",
      "data-key": "tree name" }));
    const form = h("form.find", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const wanted = input.value.trim();
      const uuid = /^[\da-f]{8}-?([\da-f]{4}-?){3}[\da-f]{12}$/i.test(wanted);
      go(uuid ? address("tree", wanted) : address("tree", "", { name: wanted }));
    } },
    h("label", { for: "tree-name" }, "Name or UUID of a provider"),
    h("div.row", {}, input, h("button.primary", { type: "submit" }, "Draw its tree")));
    let note = null;
    if (name) {
      const { body } = await read(`-/trees?${new URLSearchParams({ name })}`, { signal });
      if (body.trees.length) {
        const found = body.trees[0].providers.find((/** @type {Provider} */ it) => it.name === name);
        return go(address("tree", found.uuid), { replace: true });
      }
      note = stateNote("∅", "No provider has this name", [
        "Names are compared exactly. The cloud view finds trees by a part of a name."]);
    }
    this.#shown = "";
    refill(this, h("h1", {}, "Tree"), form, note);
    return undefined;
  }
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
        user: allocation.user, resources: {}, places: [] };
      for (const [name, value] of Object.entries(allocation.resources)) {
        consumer.resources[name] = (consumer.resources[name] ?? 0) + value;
      }
      consumer.places.push(`${provider.name}: ${amounts(allocation.resources)}`);
      found.set(uuid, consumer);
    }
  }
  return [...found.values()];
}
