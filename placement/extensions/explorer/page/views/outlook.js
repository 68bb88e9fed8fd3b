/** Outlook: how many more of each named shape fit, and until when; and which places must not fail. */

import { read } from "../api.js";
import { h, refill } from "../dom.js";
import { readAggregateTitles } from "../model/cloud.js";
import { count, counted, timeOfDay } from "../model/units.js";
import { aggregateLink } from "../parts/aggregate_link.js";
import { endSentence } from "../parts/funnel.js";
import { outLink } from "../parts/out_link.js";
import { scroller } from "../parts/scroller.js";
import { loadingNote } from "../parts/state_note.js";
import { address } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/types.js").Capacity} Capacity */
/** @typedef {import("../model/types.js").History} History */
/** @typedef {import("../model/types.js").Survival} Survival */
/** @typedef {import("../model/types.js").Lost} Lost */

const LEVELS = { tree: "Hosts", aggregate: "Aggregates" };
const IN_AGGREGATES = "5";
const BARS = 60;

/** The view of what is to come. */
export class OutlookView extends View {
  heading = "Outlook";
  #shapes = h("section.panel", { "aria-label": "Shapes" });
  #survival = h("section.panel.choices", { "aria-label": "Survival" });

  /** @param {AbortSignal} signal @param {boolean} again */
  async load(signal, again) {
    // Both are expensive: they are asked for again by hand.
    if (again) return;
    refill(this, h("h1", {}, "Outlook"), h("p.calm", {}, `As of ${timeOfDay(Date.now())}. `,
      h("button.small", { type: "button", "data-key": "again", onclick: () => this.retry() }, "Ask again")),
      this.#shapes, this.#survival);
    refill(this.#survival, loadingNote("Trying what would happen …"));
    await this.#readShapes(signal);
    await this.#readSurvival(signal);
  }

  /** @param {AbortSignal} signal */
  async #readShapes(signal) {
    const [titles, { body }] = await Promise.all([readAggregateTitles(signal),
      read(`-/capacity?shape=*&by=aggregate&top=${IN_AGGREGATES}`, { signal })]);
    /** @type {[string, Capacity][]} */
    const shapes = Object.entries(body.shapes);
    const histories = await Promise.all(shapes.map(async ([name]) => /** @type {History} */ (
      (await read(`-/capacity/history?shape=${encodeURIComponent(name)}`, { signal })).body)));
    refill(this.#shapes, h("h2", {}, "How many more fit"),
      shapes.length ? shapeTable(shapes, histories, titles) : h("p.calm", {}, "No shape is named: ",
        h("code", {}, "[insight]/shapes_file"), " names requests, such as flavors, that are counted here."),
      leftOut(Math.max(0, ...shapes.map(([, it]) => it.avoided.trees))),
      histories.some((it) => !it.forecast) && howToRecord(),
      histories.some((it) => it.forecast) && h("p.calm", {}, "Runs out: where a straight line through the last 30 days of "
        + "records meets zero."));
  }

  /** @param {AbortSignal} signal */
  async #readSurvival(signal) {
    const level = this.params.get("level") === "aggregate" ? "aggregate" : "tree";
    const [titles, { body }] = await Promise.all([level === "tree" ? new Map() : readAggregateTitles(signal),
      read(`-/survival?level=${level}`, { signal })]);
    /** @type {Survival} */
    const told = body;
    const failing = level === "tree" ? "host" : "aggregate";
    refill(this.#survival, h("h2", {}, "What must not fail"),
      h("div.tabs", { role: "navigation", "aria-label": "What fails" }, Object.entries(LEVELS).map(
        ([name, title]) => h("a", { href: address("outlook", "", { level: name }), "data-key": `level ${name}`,
          "aria-current": name === level ? "page" : null }, title))),
      h("p", { "data-summary": true }, told.places === 0 ? `There is no ${failing} that could fail.` : `${count(told.survivable)} of ${counted(told.tried, failing)} may fail: all `
        + "consumers would find another place."
        + (told.complete ? "" : ` Of ${count(told.places)} these were tried in the time.`)),
      leftOut(told.avoided),
      told.lost.length > 0 && lostTable(told.lost, level, titles));
  }
}

/** @param {number} avoided */
function leftOut(avoided) {
  return avoided > 0 && h("p.calm", { "data-left-out": true }, `Left out: ${counted(avoided, "host")} that ${avoided === 1 ? "takes" : "take"} `
    + "nothing new, such as those that Nova has disabled.");
}

/** What must be done so that a history and a forecast can be shown. */
function howToRecord() {
  return h("p.calm", { "data-how-to-record": true }, "Not recorded: run ", h("code", {}, "placement-manage capacity record"),
    " every hour on one machine. The package has a timer for it: ", h("code", {}, "systemctl enable --now placement-capacity.timer"),
    ". From the second record on, ", h("i", {}, "How it went"), " and ", h("i", {}, "Runs out"), " are shown.");
}

/** @param {[string, Capacity][]} shapes @param {History[]} histories @param {Map<string, string>} titles */
function shapeTable(shapes, histories, titles) {
  // What is read first stands first: on a telephone the aggregates are scrolled to.
  const head = ["Shape", "Fit", "Runs out", "How it went", "Most of them in"];
  return scroller("Shapes", h("table", {},
    h("thead", {}, h("tr", {}, head.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, shapes.map(([name, { count: number, complete, places }], at) => h("tr", {},
      h("th", { scope: "row" }, name),
      h("td", {}, h("b", {}, count(number)), complete ? "" : " or more"),
      h("td", {}, runsOut(histories[at])),
      h("td", {}, bars(histories[at])),
      h("td", {}, places.map((it) => h("div", {}, aggregateLink(it.uuid, titles), `: ${count(it.count)}`))))))));
}

/** @param {History} history */
function bars({ records }) {
  if (records.length < 2) return h("span.calm", {}, "not recorded");
  const step = Math.ceil(records.length / BARS);
  const shown = records.filter((_, at) => (records.length - 1 - at) % step === 0);
  const most = Math.max(1, ...shown.map((it) => it.count));
  const first = shown[0];
  const said = `From ${count(first.count)} on ${first.at.slice(0, 10)} to ${count(shown[shown.length - 1].count)}`;
  return h("span.bars", { role: "img", "aria-label": said, title: said },
    shown.map((it) => h("i", { "--part": it.count / most })));
}

/** @param {History} history */
function runsOut({ forecast }) {
  if (!forecast) return h("span.calm", {}, "not recorded");
  if (!forecast.runs_out_at) return "not at this rate";
  return h("span", {}, forecast.runs_out_at.slice(0, 10),
    h("small", {}, ` at ${count(Math.round(-forecast.per_day * 10) / 10)} a day`));
}

/** @param {Lost[]} lost @param {"tree" | "aggregate"} level @param {Map<string, string>} titles of the aggregates */
function lostTable(lost, level, titles) {
  const head = [level === "tree" ? "Host" : "Aggregate", "Homeless", "Why"];
  return scroller("Worst", h("table", {},
    h("thead", {}, h("tr", {}, head.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, lost.map((it) => h("tr", {},
      h("th", { scope: "row" }, level === "tree" ? h("a", { href: address("tree", it.uuid) }, it.name || it.uuid)
        : aggregateLink(it.uuid, titles)),
      h("td", {}, `${count(it.homeless_count)} of ${counted(it.consumers, "consumer")}`),
      h("td", {}, it.homeless.slice(0, 3).map((one) => h("div", {},
        h("a.uuid", { href: address("owners", "", { consumer: one.uuid }) }, one.uuid.slice(0, 8)), outLink("consumer", one.uuid),
        ` ${endSentence(one.stopped)}`, one.groups && ` (${one.groups.join(", ")})`)),
      it.homeless_count > 3 && h("div.calm", {}, `and ${count(it.homeless_count - 3)} more`)))))));
}
