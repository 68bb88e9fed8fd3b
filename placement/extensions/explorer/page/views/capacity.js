/** Capacity: how many of a request fit, where, what stops the next; and what if a host were drained. */

import { MICROVERSION, ROOT, Refusal, ask, read } from "../api.js";
import { h, refill } from "../dom.js";
import { readAggregateTitles } from "../model/cloud.js";
import { curl, openstack, url } from "../model/commands.js";
import { rememberQuery } from "../model/last_query.js";
import { asksSomething, parseQuery, toParams } from "../model/query.js";
import { findHost } from "../model/trees.js";
import { amount, count, counted, label, sortClasses } from "../model/units.js";
import { vocabulary } from "../model/vocabulary.js";
import { aggregateLink } from "../parts/aggregate_link.js";
import { copyLines } from "../parts/copy_lines.js";
import { drainResult } from "../parts/drain_result.js";
import { providerName } from "../parts/provider_menu.js";
import { RequestForm } from "../parts/request_form.js";
import { loadingNote, stateNote } from "../parts/state_note.js";
import { address, go, readable } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/types.js").Capacity} Capacity */
/** @typedef {import("../model/query.js").Query} Query */

/** The view of what fits. */
export class CapacityView extends View {
  heading = "Capacity";
  #form = new RequestForm();
  #drain = h("section.panel", { "aria-label": "Drain a host" });
  #answer = h("section.answer", { "aria-label": "Answer" });
  #asked = "";

  constructor() {
    super();
    this.#form.submitLabel = "How many fit?";
    this.#form.addEventListener("ask", (event) => {
      this.#go(toParams(/** @type {CustomEvent<Query>} */ (event).detail));
    });
  }

  /** @param {import("../router.js").Place} place */
  arrive(place) {
    super.arrive(place);
    if (!this.#form.isConnected) {
      refill(this, h("h1", {}, "Capacity"), h("div.search-layout", {}, h("div.side", {},
        h("section.panel", { "aria-label": "Question" }, this.#form), this.#drain), this.#answer));
    }
    this.#form.show(parseQuery(this.params));
    this.#drawDrain();
  }

  /** @param {AbortSignal} signal @param {boolean} again */
  async load(signal, again) {
    if (!again) this.#form.suggest(await vocabulary(signal));
    if (!this.#form.isConnected) this.arrive({ view: "capacity", argument: "", params: this.params });
    const query = parseQuery(this.params);
    query.limit = "";
    if (!asksSomething(query)) {
      refill(this.#answer, stateNote("?", "Ask how many fit", [
        "Name classes and amounts of one request: a flavor, say. The answer says how often it could be placed, where, and what stops the next one."]));
      return;
    }
    const params = toParams(query);
    rememberQuery(readable(params));
    // Counting a whole cloud is work: it is done when asked, not by the clock.
    if (again && this.#asked === readable(this.params)) return;
    refill(this.#answer, loadingNote("Counting …"));
    try {
      await this.#count(query, params, signal);
      this.#asked = readable(this.params);
    } catch (error) {
      if (!(error instanceof Refusal) || ![400, 404].includes(error.status)) throw error;
      refill(this.#answer, stateNote("!", "The service does not understand this", [error.detail], "bad"));
    }
  }

  /** @param {Query} query @param {URLSearchParams} params @param {AbortSignal} signal */
  async #count(query, params, signal) {
    const by = this.params.get("by") === "aggregates" ? "aggregates" : "trees";
    const drain = this.params.get("drain");
    const counting = new URLSearchParams(params);
    if (by !== "trees") counting.set("by", by);
    const drained = drain ? await findHost(drain, signal) : null;
    const [capacity, outcome, titles] = await Promise.all([
      read(`-/capacity?${counting}`, { signal }).then(({ body }) => /** @type {Capacity} */ (body)),
      drained && ask("-/what-if",
        { changes: [{ drain: drained.uuid }], query: readable(params) }, signal),
      by === "trees" ? new Map() : readAggregateTitles(signal),
    ]);
    refill(this.#answer,
      drained && drainResult(drained, outcome),
      this.#numbers(capacity, by, titles), elsewhere(params, query));
  }

  /** @param {Capacity} capacity @param {string} by @param {Map<string, string>} titles of the aggregates */
  #numbers(capacity, by, titles) {
    const most = Math.max(1, ...capacity.places.map((it) => it.count));
    return h("div", {},
      h("p.big-number", { "data-summary": true }, h("b", {}, count(capacity.count)), capacity.count === 1 ? " fits" : " fit"),
      h("p.calm", {}, exactness(capacity)),
      h("div.numbers-layout", {},
        h("section", {}, h("h2", {}, "Where"), this.#byChoice(by),
          capacity.places.length ? h("ol.ranking.places", {}, capacity.places.map((it) => h("li", {},
            by === "trees" ? providerName({ uuid: it.uuid, name: it.name || it.uuid }, `place ${it.uuid}`)
              : aggregateLink(it.uuid, titles),
            h("span.percent", {}, count(it.count)),
            h("span.track", { "aria-hidden": "true" },
              h("span.used", { "--part": it.count / most, "--ink": "var(--full-5)" })))))
            : h("p.calm", {}, "Nowhere.")),
        h("section", {}, h("h2", {}, "What stops the next one"),
          pairs(Object.entries(capacity.limits).sort((a, b) => b[1] - a[1]).map(
            ([name, trees]) => [label(name), counted(trees, "tree")]), "Nothing does."),
          h("h2", {}, "Stranded"),
          h("p.calm", {}, "Free, and of no use to this request, because something else ran out."),
          pairs(byClass(capacity.stranded), "Nothing."),
          h("h2", {}, "Largest that one provider could give"),
          pairs(byClass(capacity.largest), "Nothing."))));
  }

  /** @param {string} by */
  #byChoice(by) {
    return h("p.inline", {}, h("label", { for: "count-by" }, "by "), h("select", { id: "count-by", "data-key": "by", onchange: (/** @type {Event} */ event) => {
      const params = new URLSearchParams(this.params);
      params.set("by", /** @type {HTMLSelectElement} */ (event.target).value);
      go(address("capacity", "", params));
    } }, ["trees", "aggregates"].map((value) => h("option", { value, selected: value === by }, value))));
  }

  #drawDrain() {
    const input = /** @type {HTMLInputElement} */ (h("input", {
      id: "drain", value: this.params.get("drain") ?? "", autocomplete: "off", spellcheck: "false",
      placeholder: "name or UUID of a host", "data-key": "drain" }));
    refill(this.#drain, h("form", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const params = toParams(this.#form.query);
      if (input.value.trim()) params.set("drain", input.value.trim());
      this.#go(params);
    } }, h("label", { for: "drain" }, "What if this host were drained?"),
    h("div.row", {}, input, h("button", { type: "submit" }, "Try it")),
    h("p.calm", {}, "Nothing is changed: it is tried on a copy.")));
  }

  /** @param {URLSearchParams} params */
  #go(params) {
    const to = address("capacity", "", params);
    this.#asked = "";
    if (to === location.hash) this.retry();
    else go(to);
  }
}

/** @param {Capacity} capacity */
function exactness({ exact, complete }) {
  if (!complete) return "At least: the bound of work was reached before the cloud was full.";
  return exact ? "Exactly: no order of placing them fits more."
    : "At least: placed one after the other, each at the first place found.";
}

/** @param {Record<string, number>} amounts @returns {[string, string][]} */
function byClass(amounts) {
  return sortClasses(Object.keys(amounts)).map((name) => [label(name), amount(name, amounts[name])]);
}

/** @param {[string, string][]} rows @param {string} none */
function pairs(rows, none) {
  if (!rows.length) return h("p.calm", {}, none);
  return h("dl.pairs", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** @param {URLSearchParams} params @param {Query} query */
function elsewhere(params, query) {
  const target = url(ROOT, "capacity", params);
  const { command, notes } = openstack(query, MICROVERSION, "capacity");
  return copyLines([{ title: "URL", text: target }, { title: "curl", text: curl(target, MICROVERSION) },
    { title: "openstack", text: command, note: notes.join(" ") }]);
}
