/** Owners: the use by project, user and type; and the holdings of one consumer, on its trees. */

import { read } from "../api.js";
import { h, refill } from "../dom.js";
import { ledger } from "../model/cloud.js";
import { byConsumer, byOwner } from "../model/owners.js";
import { amount, amounts, count, counted, label, sortClasses, total } from "../model/units.js";
import { activity } from "../parts/activity.js";
import { claimWords, groupSection, readGroups } from "../parts/claim_note.js";
import { consumerTable } from "../parts/consumer_table.js";
import { outLink } from "../parts/out_link.js";
import { drawnTree } from "../parts/provider_box.js";
import { scroller } from "../parts/scroller.js";
import { loadingNote, stateNote } from "../parts/state_note.js";
import { address } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/owners.js").OwnerKind} OwnerKind */
/** @typedef {import("../model/owners.js").OwnerRow} OwnerRow */
/** @typedef {import("../model/types.js").Tree} Tree */

/** @type {[OwnerKind, string][]} */
const KINDS = [["project", "Projects"], ["user", "Users"], ["type", "Types"]];
const SHOWN = 200;

/** The view of the owners and their use. */
export class OwnersView extends View {
  heading = "Owners";
  #version = -1;
  #shown = "";

  /** @param {AbortSignal} signal @param {boolean} again */
  async load(signal, again) {
    const consumer = this.params.get("consumer");
    if (consumer) return this.#consumer(consumer, signal);
    const forest = ledger();
    if (forest.whole && !again) await this.#draw(signal);
    else this.showLoading("Reading the consumers …");
    await forest.refresh(signal, () => {
      if (forest.whole) return;
      const trees = counted(forest.rows.length, "tree");
      refill(this, h("h1", {}, "Owners"), loadingNote(`Reading the consumers: ${trees} so far …`));
    });
    if (forest.version !== this.#version || this.#shown !== this.#place()) await this.#draw(signal);
    return undefined;
  }

  #place() {
    return this.params.toString();
  }

  /** @param {AbortSignal} signal */
  async #draw(signal) {
    const kind = KINDS.find(([name]) => name === this.params.get("by"))?.[0] ?? "project";
    const owner = this.params.get("of");
    const { rows: trees, version } = ledger();
    if (owner !== null) {
      const consumers = await byConsumer(trees, (it) => it[kind] === owner, signal);
      this.#shown = this.#place();
      this.#version = version;
      refill(this, h("h1", {}, h("small", {}, `${kind} `), owner || "unknown",
        kind === "project" && outLink("project", owner)),
        h("p", {}, h("a", { href: address("owners", "", { by: kind }) }, "← all"), " · ",
          counted(consumers.length, "consumer")),
        consumers.length ? consumerTable(consumers)
          : stateNote("∅", "Holds nothing", [`No consumer of this ${kind} holds anything now.`]),
        kind === "project" && owner && activity({ project_id: owner },
          consumers.filter((it) => it.claimed?.held_until).map((it) => it.uuid)));
      return;
    }
    const rows = await byOwner(trees, kind, signal);
    this.#shown = this.#place();
    this.#version = version;
    refill(this, h("h1", {}, "Owners"),
      h("div.tabs", { role: "navigation", "aria-label": "By" }, KINDS.map(([name, title]) => h("a", {
        href: address("owners", "", { by: name }), "data-key": `by ${name}`,
        "aria-current": name === kind ? "page" : null }, title))),
      rows.length ? ownerTable(kind, rows) : stateNote("◌", "Nothing is in use", [
        "There are no allocations."]));
  }

  /** @param {string} uuid @param {AbortSignal} signal */
  async #consumer(uuid, signal) {
    if (!this.#shown.startsWith(`${this.#place()} `)) {
      this.drawn = false;
      this.#shown = "";
    }
    this.showLoading("Reading what it holds …");
    const { body } = await read(`allocations/${encodeURIComponent(uuid)}`, { signal });
    /** @type {Record<string, {resources: Record<string, number>}>} */
    const allocations = body.allocations;
    const text = `${this.#place()} ${JSON.stringify(body)}`;
    if (text === this.#shown) return;
    const asked = Object.fromEntries(
      Object.entries(allocations).map(([provider, { resources }]) => [provider, resources]));
    const params = new URLSearchParams([["allocations", "true"],
      ...Object.keys(asked).map((it) => ["uuid", it])]);
    /** @type {Tree[]} */
    const trees = params.size > 1 ? (await read(`-/trees?${params}`, { signal })).body.trees : [];
    /** @type {import("../model/types.js").Claimed} */
    const claimed = trees.flatMap((tree) => tree.providers).map(
      (it) => it.allocations?.[uuid]).find(Boolean) ?? {};
    const groups = await readGroups(claimed.groups ?? [], signal);
    this.#shown = text;
    refill(this, h("h1", {}, h("small", {}, `${body.consumer_type ?? "consumer"} `), uuid,
      outLink("consumer", uuid)),
      h("p.summary", {}, trees.length ? ["project ", h("a", {
        href: address("owners", "", { by: "project", of: body.project_id ?? "" }) }, body.project_id),
      outLink("project", body.project_id),
      ", user ", h("a", { href: address("owners", "", { by: "user", of: body.user_id ?? "" }) },
        body.user_id), ` · holds ${amounts(total(asked))}`,
      claimed.held_until && ` · ${claimWords({ held_until: claimed.held_until })}`] : ""),
      trees.length ? h("div.candidates", {}, trees.map((tree) => h("article.candidate", {},
        h("div.candidate-body", {}, drawnTree(tree, { brief: true, held: asked, key: tree.root })))))
        : stateNote("∅", "Holds nothing", ["The service knows no allocation of this consumer."]),
      groups.map(groupSection), activity({ consumer: uuid }, claimed.held_until ? [uuid] : []));
  }
}

/** @param {OwnerKind} kind @param {OwnerRow[]} rows */
function ownerTable(kind, rows) {
  const names = sortClasses([...new Set(rows.flatMap((row) => Object.keys(row.resources)))]);
  const most = Object.fromEntries(names.map(
    (name) => [name, Math.max(...rows.map((row) => row.resources[name] ?? 0))]));
  return h("div", {}, scroller("Owners",
    h("table.numbers.owners", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, kind), h("th", { scope: "col" }, "Consumers"),
        names.map((name) => h("th", { scope: "col", title: name }, label(name))))),
      h("tbody", {}, rows.slice(0, SHOWN).map((row) => h("tr", {},
        h("th", { scope: "row" }, h("a", { href: address("owners", "", { by: kind, of: row.name }) },
          row.name || "unknown"), kind === "project" && outLink("project", row.name)),
        h("td", {}, count(row.consumers)),
        names.map((name) => h("td", { "--part": (row.resources[name] ?? 0) / most[name] },
          row.resources[name] ? amount(name, row.resources[name]) : "–"))))))),
    rows.length > SHOWN && h("p.calm", {}, `and ${count(rows.length - SHOWN)} more, who hold less`));
}
