/** Plan: what must move so that a request fits, or a host is empty; in an order that works. */

import { MICROVERSION, ROOT, Refusal, ask } from "../api.js";
import { h, refill } from "../dom.js";
import { planCommands } from "../model/commands.js";
import { rememberQuery } from "../model/last_query.js";
import { asksSomething, parseQuery, toParams } from "../model/query.js";
import { findHost, treesOf } from "../model/trees.js";
import { vocabulary } from "../model/vocabulary.js";
import { copyLines } from "../parts/copy_lines.js";
import { SHOWN, noPlanResult, planResult } from "../parts/plan_result.js";
import { RequestForm } from "../parts/request_form.js";
import { loadingNote, stateNote } from "../parts/state_note.js";
import { address, go, readable } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/query.js").Query} Query */
/** @typedef {import("../model/types.js").Plan} Plan */
/** @typedef {import("../model/moves.js").Host} Host */
/** @typedef {import("../model/commands.js").Goal} Goal */

/** The view of what must move. */
export class PlanView extends View {
  heading = "Plan";
  #form = new RequestForm();
  #empty = h("section.panel", { "aria-label": "Empty a host" });
  #answer = h("section.answer", { "aria-label": "Answer" });
  #asked = "";

  constructor() {
    super();
    this.#form.submitLabel = "What must move?";
    this.#form.addEventListener("ask", (event) => {
      this.#go(placed(/** @type {CustomEvent<Query>} */ (event).detail));
    });
  }

  /** @param {import("../router.js").Place} place */
  arrive(place) {
    super.arrive(place);
    if (!this.#form.isConnected) {
      refill(this, h("h1", {}, "What must move?"), h("div.search-layout", {}, h("div.side", {},
        h("section.panel", { "aria-label": "Make room" }, h("h2", {}, "Make room for this"), this.#form),
        this.#empty), this.#answer));
    }
    this.#form.show(parseQuery(this.params));
    this.#drawEmpty();
  }

  /** @param {AbortSignal} signal @param {boolean} again */
  async load(signal, again) {
    if (!again) this.#form.suggest(await vocabulary(signal));
    if (!this.#form.isConnected) this.arrive({ view: "plan", argument: "", params: this.params });
    const asked = readable(this.params);
    const wanted = this.params.get("empty");
    if (!wanted && !asksSomething(parseQuery(this.params))) {
      refill(this.#answer, stateNote("⇄", "Make room, or empty a host", [
        "Say what is to fit, or which host is to be empty. The answer is the fewest moves after which it is so, in an order that works. Nothing is changed."]));
      return;
    }
    // A plan is work: it is made when asked, not by the clock.
    if (again && this.#asked === asked) return;
    refill(this.#answer, loadingNote("Looking for the fewest moves …"));
    try {
      if (wanted) await this.#planToEmpty(wanted, signal);
      else await this.#planToPlace(signal);
      this.#asked = asked;
    } catch (error) {
      if (!(error instanceof Refusal) || ![400, 404].includes(error.status)) throw error;
      refill(this.#answer, error.status === 404 ? stateNote("∅", "There is no such thing", [error.detail])
        : stateNote("!", "The service does not understand this", [error.detail], "bad"));
    }
  }

  /** @param {string} wanted a name or uuid @param {AbortSignal} signal */
  async #planToEmpty(wanted, signal) {
    const host = await findHost(wanted, signal);
    await this.#plan({ empty: { trees: [host.uuid] } }, host, "", signal);
  }

  /** @param {AbortSignal} signal */
  async #planToPlace(signal) {
    const params = placed(parseQuery(this.params));
    rememberQuery(readable(params));
    await this.#plan({ place: readable(params) }, null, address("search", "", params), signal);
  }

  /** @param {Goal} goal @param {Host | null} emptied @param {string} search @param {AbortSignal} signal */
  async #plan(goal, emptied, search, signal) {
    const lines = copyLines(planCommands(new URL("-/plans", ROOT).href, MICROVERSION, goal));
    /** @type {Plan} */
    let plan;
    try {
      plan = await ask("-/plans", { goal }, signal);
    } catch (error) {
      const code = error instanceof Refusal ? error.code : "";
      if (code === "placement.no_plan") {
        refill(this.#answer, ...noPlanResult(/** @type {Refusal} */ (error).error, emptied, search), lines);
      } else if (code === "placement.search_given_up") {
        refill(this.#answer, stateNote("…", "No plan was found in time", [
          /** @type {Refusal} */ (error).detail,
          h("button", { type: "button", onclick: () => this.#again() }, "Try again")]));
      } else throw error;
      return;
    }
    const named = plan.steps.slice(0, SHOWN).flatMap((it) => [Object.keys(it.from)[0], it.root_provider_uuid]);
    const goals = (plan.placed ?? []).map((it) => it.root_provider_uuid);
    const trees = await treesOf([...named, ...goals, ...(emptied ? [emptied.uuid] : [])], signal);
    refill(this.#answer, ...planResult(plan, trees, emptied, goal), lines);
  }

  #drawEmpty() {
    const input = /** @type {HTMLInputElement} */ (h("input", {
      id: "empty", value: this.params.get("empty") ?? "", autocomplete: "off", spellcheck: "false",
      placeholder: "name or UUID of a host", "data-key": "empty" }));
    refill(this.#empty, h("form", { onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      const wanted = input.value.trim();
      if (wanted) this.#go(new URLSearchParams({ empty: wanted }));
    } }, h("label", { for: "empty" }, "Empty this host"),
    h("div.row", {}, input, h("button", { type: "submit" }, "Plan it")),
    h("p.calm", {}, "Nothing is changed: a plan is advice.")));
  }

  /** @param {URLSearchParams} params */
  #go(params) {
    const to = address("plan", "", params);
    if (to === location.hash) this.#again();
    else go(to);
  }

  #again() {
    this.#asked = "";
    this.retry();
  }
}

/**
 * What is to fit: a plan has no use for a limit.
 *
 * @param {Query} query
 */
function placed(query) {
  return toParams({ ...query, limit: "" });
}
