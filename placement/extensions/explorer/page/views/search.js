/** Search: a question as cards; its answer on trees, or the reasons for none and what would help. */

import { MICROVERSION, ROOT, Refusal, isAbort, read } from "../api.js";
import { h, refill } from "../dom.js";
import { curl, openstack, url } from "../model/commands.js";
import { rememberQuery } from "../model/last_query.js";
import { asksSomething, inParts, parseQuery, toParams, withAmount, without } from "../model/query.js";
import { treesOf } from "../model/trees.js";
import { count, counted, timeOfDay } from "../model/units.js";
import { vocabulary } from "../model/vocabulary.js";
import { candidateCard, places } from "../parts/candidate_list.js";
import { copyLines } from "../parts/copy_lines.js";
import { found, funnel, remedies } from "../parts/funnel.js";
import { RequestForm } from "../parts/request_form.js";
import { loadingNote, stateNote } from "../parts/state_note.js";
import { address, go, readable } from "../router.js";
import { View } from "./view.js";

/** @typedef {import("../model/query.js").Query} Query */
/** @typedef {import("../model/types.js").Explanation} Explanation */
/** @typedef {import("../model/types.js").Candidates} Candidates */
/** @typedef {import("../model/types.js").Tree} Tree */
/** @typedef {import("../model/types.js").Largest} Largest */
/** @typedef {import("../parts/funnel.js").Gains} Gains */
/** @typedef {{answer: Candidates, explanation: Explanation, trees: Map<string, Tree>, gains: Gains, aboutGains: Gains}} Found */

const LIMIT = "50";
const DRAWN = 4;

/** The view of a question and its answer. */
export class SearchView extends View {
  heading = "Search";
  #form = new RequestForm();
  #about = h("div.about", {});
  #answer = h("section.answer", { "aria-label": "Answer" });
  #asked = "";
  #last = "";

  constructor() {
    super();
    this.#form.addEventListener("ask", (event) => {
      this.#ask(/** @type {CustomEvent<Query>} */ (event).detail);
    });
  }

  /** @param {import("../router.js").Place} place */
  arrive(place) {
    super.arrive(place);
    if (!this.#form.isConnected) {
      refill(this, h("h1", {}, "Search"), h("div.search-layout", {},
        h("section.panel", { "aria-label": "Question" }, this.#about, this.#form), this.#answer));
    }
    this.#form.show(parseQuery(this.params));
    this.#drawAbout(this.params.get("about"));
  }

  /** @param {AbortSignal} signal @param {boolean} again */
  async load(signal, again) {
    const query = parseQuery(this.params);
    if (!again) this.#form.suggest(await vocabulary(signal));
    if (!this.#form.isConnected) this.arrive({ view: "search", argument: "", params: this.params });
    if (!asksSomething(query)) {
      refill(this.#answer, stateNote("?", "Ask for something", [
        "Name classes and amounts. The answer is drawn here: the trees that could take the request, or why none can and what would help."]));
      return;
    }
    const params = toParams(query);
    rememberQuery(readable(params));
    const asked = readable(this.params);
    if (!again || asked !== this.#asked) {
      this.#last = "";
      refill(this.#answer, loadingNote("Searching …"));
    }
    this.#asked = asked;
    try {
      await this.#search(query, params, signal);
    } catch (error) {
      if (!isAbort(error)) this.#answer.replaceChildren();
      if (error instanceof Refusal && [400, 404].includes(error.status)) this.#drawWrong(error);
      else throw error;
    }
  }

  /** @param {Query} query @param {URLSearchParams} params @param {AbortSignal} signal */
  async #search(query, params, signal) {
    const limited = new URLSearchParams(params);
    const limit = query.limit || LIMIT;
    limited.set("limit", limit);
    /** @type {Candidates} */
    const answer = (await read(`allocation_candidates?${limited}`, { signal })).body;
    const text = gist(answer, Number(limit));
    // The explanation is expensive: it is asked for again only if the answer differs.
    if (text === this.#last) return;
    const more = new URLSearchParams(params);
    const about = this.params.get("about");
    if (about) more.set("about", about);
    const [explanation, trees] = await Promise.all([
      read(`-/explain?${more}`, { signal }).then(({ body }) => /** @type {Explanation} */ (body)),
      treesOf(places(answer).slice(0, DRAWN).flatMap((it) => it.roots), signal),
    ]);
    const [gains, aboutGains] = await Promise.all([
      gainsOf(query, explanation.largest ?? [], null, signal),
      gainsOf(query, explanation.about?.largest ?? [], about, signal)]);
    this.#last = text;
    this.#draw(query, { answer, explanation, trees, gains, aboutGains });
  }

  /** @param {Query} query @param {Found} found */
  #draw(query, { answer, explanation, trees, gains, aboutGains }) {
    const none = explanation.candidates.count === 0;
    const about = explanation.about;
    const ended = explanation.stopped ?? explanation.combining ?? null;
    refill(this.#answer,
      about && this.#verdict(query, about, aboutGains),
      none ? h("h2", { "data-summary": true }, about ? "Nothing in the cloud could take this" : "Nothing could take this") : h("h2", { "data-summary": true }, found(explanation.candidates)),
      h("p.calm", {}, `As of ${timeOfDay(Date.now())}. `,
        h("button.small", { type: "button", onclick: () => { this.#last = ""; this.retry(); } }, "Ask again")),
      none && this.#remedies(query, explanation, gains),
      none && h("p", {}, "Or move others out of the way: ",
        h("a", { href: address("plan", "", toParams({ ...query, limit: "" })) }, "What must move?")),
      none ? funnel(explanation.steps, ended) : this.#candidates(answer, trees),
      !none && h("details.how", { "data-key": "how" }, h("summary", {}, "How the search narrowed"),
        funnel(explanation.steps, ended)),
      elsewhere(query));
  }

  /**
   * @param {Query} query
   * @param {Pick<Explanation, "relaxations" | "largest">} why
   * @param {Gains} gains
   */
  #remedies(query, { relaxations = [], largest = [] }, gains) {
    return remedies(relaxations, largest, gains, {
      part: (it) => this.#ask(inParts(query, it.group, it.resource_class, it.would_do ?? 0) ?? query),
      drop: (demands) => this.#ask(demands.reduce(without, query)),
      lessen: (it) => this.#ask(
        withAmount(query, it.group, it.resource_class, it.would_do ?? it.asked)),
    });
  }

  /** @param {Query} query @param {import("../model/types.js").About} about @param {Gains} gains */
  #verdict(query, about, gains) {
    const could = about.candidates.count > 0;
    return h("section.verdict", { class: could ? "verdict could" : "verdict cannot" },
      h("h2", {}, could ? "This host could" : "Why not this host"),
      h("p", {}, about.verdict),
      !could && this.#remedies(query, about, gains));
  }

  /** @param {Candidates} answer @param {Map<string, Tree>} trees */
  #candidates(answer, trees) {
    const all = places(answer);
    const list = h("div.candidates", {}, all.slice(0, DRAWN).map((it) => candidateCard(it, trees)));
    let shown = DRAWN;
    const more = h("button", { type: "button" });
    const left = () => {
      more.hidden = shown >= all.length;
      more.textContent = `Draw more (${count(all.length - shown)} left)`;
    };
    more.addEventListener("click", async () => {
      const next = all.slice(shown, shown + DRAWN);
      shown += DRAWN;
      left();
      const found = await treesOf(next.flatMap((it) => it.roots)).catch(() => new Map());
      list.append(...next.map((it) => candidateCard(it, found)));
    });
    left();
    return h("div", {}, h("p", {}, where(answer.allocation_requests.length, all.length)),
      list, more);
  }

  /** @param {Refusal} error */
  #drawWrong(error) {
    refill(this.#answer, stateNote("!", error.status === 404 ? "There is no such thing"
      : "The service does not understand this", [error.detail], "bad"));
  }

  /** @param {string | null} uuid */
  #drawAbout(uuid) {
    if (!uuid) return refill(this.#about);
    const name = h("b", {}, uuid.slice(0, 8));
    void read(`-/trees/${encodeURIComponent(uuid)}`).then(({ body }) => {
      const found = body.trees[0].providers.find((/** @type {{uuid: string}} */ it) => it.uuid === uuid);
      name.textContent = found?.name ?? uuid;
    }, () => undefined);
    return refill(this.#about, h("p", {}, "Why not ", h("a", { href: address("tree", uuid) }, name), "? ",
      h("button.small", { type: "button", onclick: () => this.#go(parseQuery(this.params), null) },
        "Ask about the whole cloud")));
  }

  /** @param {Query} query */
  #ask(query) {
    this.#last = "";
    this.#go(query, this.params.get("about"));
    // Where the answer is below the form, scroll to it.
    if (this.#answer.offsetTop > this.#form.offsetTop) this.#answer.scrollIntoView();
  }

  /** @param {Query} query @param {string | null} about */
  #go(query, about) {
    const params = toParams(query);
    if (about) params.set("about", about);
    const to = address("search", "", params);
    if (to === location.hash) this.retry();
    else go(to);
  }
}

/**
 * How many candidates smaller amounts would bring, and the same amounts from several providers.
 *
 * @param {Query} query
 * @param {Largest[]} largest
 * @param {string | null} about the provider whose tree is to give them
 * @param {AbortSignal} signal
 * @returns {Promise<Gains>}
 */
async function gainsOf(query, largest, about, signal) {
  const count = async (/** @type {Query | null} */ changed) => {
    if (!changed) return null;
    const params = toParams(changed);
    if (about) params.set("about", about);
    /** @type {Explanation} */
    const why = (await read(`-/explain?${params}`, { signal })).body;
    return (why.about ?? why).candidates;
  };
  const counted = await Promise.all(largest.map(async (it) => {
    const most = it.would_do ?? 0;
    const smaller = most > 0 ? withAmount(query, it.group, it.resource_class, most) : null;
    const [less, parts] = await Promise.all([
      count(smaller), count(inParts(query, it.group, it.resource_class, most))]);
    return { it, less, parts };
  }));
  /** @type {Gains} */
  const gains = { less: new Map(), parts: new Map() };
  for (const { it, less, parts } of counted) {
    if (less) gains.less.set(it, less);
    if (parts?.count) gains.parts.set(it, parts);
  }
  return gains;
}

/**
 * Return the part of an answer whose change is shown at a refresh. The service begins each search at another
 * tree: neither the order matters, nor which candidates were answered when there are more than the limit.
 *
 * @param {Candidates} answer
 * @param {number} limit
 */
function gist(answer, limit) {
  const found = answer.allocation_requests.map((it) => JSON.stringify(it.allocations));
  return found.length < limit ? JSON.stringify(found.sort()) : `${limit} of more`;
}

/** @param {number} ways @param {number} trees */
function where(ways, trees) {
  if (ways === trees) return `The first ${count(ways)}, each on another tree:`;
  return `The first ${count(ways)} are on ${counted(trees, "tree")}:`;
}

/** @param {Query} query */
function elsewhere(query) {
  const params = toParams(query);
  const target = url(ROOT, "candidates", params);
  const why = url(ROOT, "explain", params);
  const { command, notes } = openstack(query, MICROVERSION);
  return copyLines([
    { title: "URL", text: target },
    { title: "curl", text: curl(target, MICROVERSION) },
    { title: "curl, why", text: curl(why, MICROVERSION) },
    { title: "openstack", text: command, note: notes.join(" ") },
    { title: "openstack, why", text: openstack(query, MICROVERSION, "explain").command },
  ]);
}
