/** The cloud: capacity by class, every tree as a cell, the fullest trees, and those over capacity. */

import { breathe, h, refill } from "../dom.js";
import { cloud } from "../model/cloud.js";
import { ratioOf } from "../model/forest.js";
import { EVERY, aggregatesOf, grouped, layersOf, sizeWords } from "../model/grouping.js";
import { LEVELS, OVER, fullest, level, ratio } from "../model/fullness.js";
import { OUT_OF_SERVICE } from "../model/traits.js";
import { amount, amountOf, amounts, count, counted, label, percent, sortClasses, together } from "../model/units.js";
import { GroupedGrid } from "../parts/grouped_grid.js";
import { serviceTag } from "../parts/provider_box.js";
import { providerName } from "../parts/provider_menu.js";
import { scroller } from "../parts/scroller.js";
import { emptyCloud, loadingNote } from "../parts/state_note.js";
import { fillBar, track } from "../parts/fill_bar.js";
import { address, go } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/forest.js").Row} Row */
/** @typedef {import("../model/fullness.js").Sum} Sum */
/**
 * @typedef {object} Choices
 * @property {string[]} classes
 * @property {string[]} traits
 * @property {Map<string, {title: string, size: number}>} aggregates
 * @property {string[][]} layers of aggregates
 */

const TOP = 10;
const MOST_CHOICES = 500;
const MOST_LAYERS = 20;
const BETWEEN_DRAWINGS_MS = 300;

/** The view of the whole cloud. */
export class CloudView extends View {
  heading = "Cloud";
  #grid = new GroupedGrid();
  #totals = h("section.panel.totals", { "aria-label": "Capacity by class" });
  #top = h("section.panel", { "aria-label": "Fullest trees" });
  #over = h("section.panel", { "aria-label": "Over capacity" });
  #tools = h("div.tools");
  #summary = h("p.summary", { "data-summary": true });
  #groupNote = h("p.calm", {});
  #drawing = 0;
  #drawnAt = 0;
  /** The part of the cloud that is drawn. */
  #version = -1;
  #whole = false;

  /** @param {AbortSignal} signal @param {boolean} again */
  async load(signal, again) {
    const forest = cloud();
    if (!forest.whole) this.showLoading("Reading the trees …");
    else if (!again) await this.#draw();
    await forest.refresh(signal, () => {
      const due = performance.now() - this.#drawnAt > BETWEEN_DRAWINGS_MS;
      if (!forest.whole && due) void this.#draw();
    });
    if (forest.version !== this.#version || !this.#whole) await this.#draw();
  }

  /** Draw part by part; a newer drawing ends an older one. */
  async #draw() {
    const drawing = ++this.#drawing;
    this.#drawnAt = performance.now();
    this.#version = cloud().version;
    this.#whole = cloud().whole;
    for (const part of this.#parts()) {
      part();
      await breathe();
      if (drawing !== this.#drawing) return;
    }
    this.#drawnAt = performance.now();
  }

  /** @returns {Generator<() => void>} */
  *#parts() {
    const all = cloud().rows;
    if (cloud().whole && !all.length) {
      yield () => refill(this, h("h1", {}, "Cloud"), emptyCloud());
      return;
    }
    if (!this.#grid.isConnected) yield () => this.#lay();
    const resourceClass = this.params.get("class") ?? "";
    /** @type {Row[]} */
    let rows = [];
    yield () => { rows = this.#chosen(all, resourceClass); };
    yield () => { rows = fullerFirst(rows, resourceClass); };
    yield () => this.#drawSummary(rows, all);
    /** @type {Map<string, Sum>} */
    let sums = new Map();
    yield () => { sums = sumsOf(rows); };
    yield () => refill(this.#totals, h("h2", {}, "What there is"),
      rows.length || !cloud().whole ? totalsTable(sums, cloud().whole) : h("p.calm", {}, "No provider matches the filter."),
      idleNote(rows.filter((row) => row.outOfService)));
    yield () => this.#drawTop(rows, resourceClass);
    yield* this.#gridParts(this.#ordered(rows), all, resourceClass);
    yield () => this.#drawOver(rows);
    if (!cloud().whole) return;
    /** @type {Choices} */
    const choices = { classes: [], traits: [], aggregates: new Map(), layers: [] };
    yield () => { choices.classes = sortClasses(every(all, (row) => row.sums.keys())); };
    yield () => { choices.traits = every(all, (row) => row.traits).sort(); };
    yield () => { choices.aggregates = aggregatesOf(all); };
    yield () => { choices.layers = layersOf(all, choices.aggregates.keys()); };
    yield () => this.#drawTools(choices);
  }

  #lay() {
    refill(this, h("h1", {}, "Cloud"), h("div.cloud-layout", {}, this.#totals,
      h("section.panel.map", { "aria-label": "All trees" }, h("h2", {}, "Trees"), this.#tools,
        this.#summary, this.#grid, this.#groupNote, legend()),
      h("div.side", {}, this.#top, this.#over)));
    this.#drawTools({ classes: [], traits: [], aggregates: new Map(), layers: [] });
  }

  /** @param {Row[]} all @param {string} resourceClass */
  #chosen(all, resourceClass) {
    const name = (this.params.get("name") ?? "").toLowerCase();
    const trait = this.params.get("trait") ?? "";
    const aggregate = this.params.get("aggregate") ?? "";
    return all.filter((row) => (!name || row.names.toLowerCase().includes(name))
      && (!trait || row.traits.has(trait))
      && (!aggregate || row.aggregates.has(aggregate))
      && (!resourceClass || row.sums.has(resourceClass)));
  }

  /** @param {Row[]} rows fullest first */
  #ordered(rows) {
    if (this.params.get("sort") !== "name") return rows;
    return [...rows].sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
  }

  /** @param {Row[]} rows @param {Row[]} all */
  #drawSummary(rows, all) {
    const said = sizeWords(rows, all.length) + (cloud().whole ? "" : ", still reading …");
    const idle = rows.filter((row) => row.outOfService).length;
    const out = idle ? `${count(idle)} out of service` : "";
    if (this.#summary.textContent === (out ? `${said}, ${out}` : said)) return;
    refill(this.#summary, said, out && ", ",
      out && h("a", { href: this.#with({ trait: OUT_OF_SERVICE }), "data-key": "out of service" }, out));
  }

  /**
   * @param {Row[]} rows in their order
   * @param {Row[]} all
   * @param {string} resourceClass
   * @returns {Generator<() => void>}
   */
  *#gridParts(rows, all, resourceClass) {
    /** @type {import("../parts/grouped_grid.js").Section[]} */
    let sections = [];
    yield () => {
      const { groups, more } = grouped(rows, this.params.get("group") ?? "", all);
      sections = groups.map(({ key, title, rows: mine }) => ({ key, title, note: title && groupNote(mine, resourceClass),
        href: key && this.#with({ aggregate: key, group: "" }), cells: mine.map((row) => cellOf(row, resourceClass)) }));
      const shown = groups.reduce((sum, group) => sum + group.rows.length, 0);
      refill(this.#groupNote, more > 0 && `${counted(more, "aggregate")} more are not shown. `,
        shown > rows.length && "A tree in several of them is shown in each.");
    };
    yield* this.#grid.show(sections);
  }

  /** @param {Row[]} rows @param {string} resourceClass */
  #drawTop(rows, resourceClass) {
    const most = rows.slice(0, TOP);
    refill(this.#top,
      h("h2", {}, resourceClass ? `Fullest by ${label(resourceClass).toLowerCase()}` : "Fullest"),
      h("ol.ranking", {}, most.map((row) => {
        const value = ratioOf(row, resourceClass);
        const name = resourceClass || row.fullestClass;
        const sum = name ? row.sums.get(name) : undefined;
        return h("li", {}, h("span", {}, providerName({ uuid: row.root, name: row.name }, `top ${row.root}`),
            serviceTag(row.outOfService)),
          h("span.percent", {}, percent(value)),
          sum && track(value, sum),
          sum && name ? h("small", {}, usedOf(name, sum)) : h("small", {}, "no inventory"));
      })));
  }

  /** @param {Row[]} rows */
  #drawOver(rows) {
    const over = rows.flatMap((row) => row.over);
    refill(this.#over, h("h2", {}, "Over capacity"),
      over.length === 0 ? h("p.calm", {}, "Nothing is used beyond what there is.")
        : h("ol.ranking", {}, over.slice(0, TOP).map((it) => h("li", {},
          providerName(it, `over ${it.uuid}${it.resourceClass}`),
          h("span.percent.over", {}, percent(ratio(it.used, it.capacity))),
          h("small", {}, usedOf(it.resourceClass, it))))),
      over.length > TOP && h("p.calm", {}, `and ${count(over.length - TOP)} more`));
  }

  /** @param {Choices} choices */
  #drawTools({ classes, traits, aggregates, layers }) {
    const name = h("input", { type: "search", id: "filter-name", placeholder: "any",
      value: this.params.get("name") ?? "", "data-key": "filter name", autocomplete: "off",
      oninput: (/** @type {Event} */ event) => this.#filter("name", event) });
    const active = document.activeElement === this.querySelector("#filter-name");
    if (active) return;
    refill(this.#tools,
      h("div", {}, h("label", { for: "filter-name" }, "Name"), name),
      this.#choice("class", "Colour by", "fullest class", classes, label),
      this.#choice("trait", "Trait", "any", traits),
      this.#choice("aggregate", "Aggregate", "any", [...aggregates.keys()].slice(0, MOST_CHOICES), (uuid) => {
        const { size = 0, title = "" } = aggregates.get(uuid) ?? {};
        return title ? `${counted(size, "tree")}: ${title} (${uuid.slice(0, 8)})` : uuid;
      }),
      this.#layerChoice(aggregates, layers),
      this.#choice("sort", "Order", "fullest first", ["name"], () => "by name"));
  }

  /** @param {Choices["aggregates"]} aggregates @param {string[][]} layers */
  #layerChoice(aggregates, layers) {
    const now = this.params.get("group") ?? "";
    const titles = new Map(layers.slice(0, MOST_LAYERS).map((layer) => {
      const names = layer.map((uuid) => aggregates.get(uuid)?.title).sort().slice(0, 3).join(", ");
      return [layer.includes(now) ? now : layer[0],
        `${counted(layer.length, "aggregate")}: ${names}${layer.length > 3 ? ", …" : ""}`];
    }));
    if (layers.length) titles.set(EVERY, "every aggregate");
    return this.#choice("group", "Group by", "nothing", [...titles.keys()], (value) => titles.get(value) ?? value);
  }

  /**
   * @param {string} param
   * @param {string} title
   * @param {string} none
   * @param {string[]} values
   * @param {(value: string) => string} [say]
   */
  #choice(param, title, none, values, say = (value) => value) {
    const now = this.params.get(param) ?? "";
    const known = now && !values.includes(now) ? [now, ...values] : values;
    return h("div", {}, h("label", { for: `filter-${param}` }, title), h("select", {
      id: `filter-${param}`, "data-key": `filter ${param}`,
      onchange: (/** @type {Event} */ event) => this.#filter(param, event) },
    h("option", { value: "" }, none),
    known.map((value) => h("option", { value, selected: value === now }, say(value)))));
  }

  /** @param {string} param @param {Event} event */
  #filter(param, event) {
    const field = /** @type {HTMLInputElement | HTMLSelectElement} */ (event.target);
    go(this.#with({ [param]: field.value }), { replace: param === "name" });
  }

  /**
   * The address of this view with other parameters.
   *
   * @param {Record<string, string>} changes "" takes a parameter away
   */
  #with(changes) {
    const params = new URLSearchParams(this.params);
    for (const [name, value] of Object.entries(changes)) {
      if (value) params.set(name, value);
      else params.delete(name);
    }
    return address("cloud", "", params);
  }
}

/**
 * What the rows have of something, each once.
 *
 * @param {Row[]} rows
 * @param {(row: Row) => Iterable<string>} of
 */
function every(rows, of) {
  /** @type {Set<string>} */
  const found = new Set();
  for (const row of rows) for (const name of of(row)) found.add(name);
  return [...found];
}

/**
 * What the rows have together, by class.
 *
 * @param {Row[]} rows
 */
function sumsOf(rows) {
  /** @type {Map<string, Sum>} */
  const sums = new Map();
  for (const row of rows) {
    for (const [name, sum] of row.sums) {
      const total = sums.get(name) ?? { capacity: 0, used: 0, reserved: 0, total: 0 };
      total.capacity += sum.capacity;
      total.used += sum.used;
      total.reserved += sum.reserved;
      total.total += sum.total;
      sums.set(name, total);
    }
  }
  return sums;
}

/**
 * In the order of fullness: by the class, then by all classes together, so that one is the fullest.
 *
 * @param {Row[]} rows
 * @param {string} resourceClass
 */
function fullerFirst(rows, resourceClass) {
  return rows.map((row) => ({ row, value: ratioOf(row, resourceClass) }))
    .sort((a, b) => b.value - a.value || b.row.mean - a.row.mean || (a.row.name < b.row.name ? -1 : 1))
    .map(({ row }) => row);
}

/** @param {Map<string, Sum>} sums @param {boolean} whole whether all has been read */
function totalsTable(sums, whole) {
  if (!sums.size && !whole) return loadingNote("Reading …");
  if (!sums.size) return h("p.calm", {}, "None of these providers has an inventory yet.");
  const head = ["Class", "", "Used", "Capacity", "Reserved", "In use"];
  const narrow = h("div.only-narrow", {}, sortClasses([...sums.keys()]).map(
    (name) => fillBar(name, /** @type {Sum} */ (sums.get(name)))));
  return h("div", {}, narrow, h("div.only-wide", {}, scroller("Totals", h("table.numbers", {},
      h("thead", {}, h("tr", {}, head.map((title) => h("th", { scope: "col" }, title ||
        h("span.spoken", {}, "Bar"))))),
      h("tbody", {}, sortClasses([...sums.keys()]).map((name) => {
        const sum = /** @type {Sum} */ (sums.get(name));
        const part = ratio(sum.used, sum.capacity);
        return h("tr", {},
          h("th", { scope: "row" }, label(name), label(name) !== name && h("small", {}, name)),
          h("td.bar", {}, track(part, sum)), h("td", {}, amount(name, sum.used)),
          h("td", {}, amount(name, sum.capacity)),
          h("td", {}, sum.reserved ? amount(name, sum.reserved) : "–"), h("td", {}, h("b", {}, percent(part))));
      }))))));
}

/** @param {string} name @param {{used: number, capacity: number}} sum */
function usedOf(name, { used, capacity }) {
  return `${together(name, used, capacity).texts[0]} of ${amountOf(name, capacity)}`;
}

/** @param {Row} row @param {string} resourceClass */
function cellOf(row, resourceClass) {
  const value = ratioOf(row, resourceClass);
  return { root: row.root, name: row.name, ratio: value,
    level: resourceClass ? level(value) : row.level, className: resourceClass || row.fullestClass,
    outOfService: row.outOfService };
}

/**
 * How many trees a group has, how full it is, and how many take nothing.
 *
 * @param {Row[]} rows
 * @param {string} resourceClass "" for the fullest
 */
function groupNote(rows, resourceClass) {
  const sums = sumsOf(rows);
  const name = resourceClass || fullest(sums).name;
  const sum = name && sums.get(name);
  const idle = rows.filter((row) => row.outOfService).length;
  return [counted(rows.length, "tree"),
    ...sum ? [`${percent(ratio(sum.used, sum.capacity))} ${label(name).toLowerCase()} in use`] : [],
    ...idle ? [`${count(idle)} out of service`] : []].join(" · ");
}

/**
 * What of the totals is on hosts that take nothing new.
 *
 * @param {Row[]} rows
 */
function idleNote(rows) {
  const room = Object.fromEntries([...sumsOf(rows)].map(([name, { capacity }]) => [name, capacity]));
  return rows.length > 0 && h("p.calm", {}, `Out of service, and counted here: ${counted(rows.length, "tree")}`,
    sumsOf(rows).size > 0 && ` with ${amounts(room)}`, ".");
}

function legend() {
  return h("p.legend", {}, h("span", {}, "empty"),
    h("span.scale", { "aria-hidden": "true" }, Array.from({ length: LEVELS + 1 }, (_, step) =>
      h("i", { "--ink": `var(--full-${step})` }))),
    h("span", {}, "full"),
    h("span", {}, h("i.over", { "aria-hidden": "true", "data-level": OVER }), "over capacity"),
    h("span", {}, h("i.idle", { "aria-hidden": "true" }), "out of service"));
}
