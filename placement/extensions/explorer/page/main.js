/** The page: header, the view that the address names, and the pulse that keeps it fresh. */

import { announce } from "./announcer.js";
import { isAbort, Refusal } from "./api.js";
import { h, refill } from "./dom.js";
import { forgetChanges, hasChanged, isCounting, startCounting } from "./model/changes.js";
import { forgetCloud } from "./model/cloud.js";
import { forgetLinks, readLinks } from "./model/links.js";
import { timeOfDay } from "./model/units.js";
import { forgetVocabulary } from "./model/vocabulary.js";
import { closeMenuOnMove, menuIsOpen } from "./parts/provider_menu.js";
import "./parts/name_box.js";
import { signIn } from "./parts/sign_in.js";
import { errorNote, errorTitle } from "./parts/state_note.js";
import { address, currentPlace } from "./router.js";
import { scheme, schemeChanges, switchScheme } from "./scheme.js";
import { session } from "./session.js";
import { CapacityView } from "./views/capacity.js";
import { CloudView } from "./views/cloud.js";
import { OutlookView } from "./views/outlook.js";
import { OwnersView } from "./views/owners.js";
import { PlanView } from "./views/plan.js";
import { SearchView } from "./views/search.js";
import { TreeView } from "./views/tree.js";

/** @typedef {import("./views/view.js").View} View */

const TITLES = { cloud: "Cloud", tree: "Tree", search: "Search", capacity: "Capacity", plan: "Plan", outlook: "Outlook", owners: "Owners" };
const REFRESH_MS = 10_000;
/** So long the service may let a question wait; less than REFRESH_MS, so that a silent one is noticed. */
const WAIT_S = 8;
/** Between two questions, where the service lets no more wait. */
const UNWAITED_MS = 2000;
const SOON_MS = 250;
/** A refresh may take this part of the time, and so may what it asks of the service. */
const BUSY_PART = 0.2;

customElements.define("cloud-view", CloudView);
customElements.define("tree-view", TreeView);
customElements.define("search-view", SearchView);
customElements.define("capacity-view", CapacityView);
customElements.define("plan-view", PlanView);
customElements.define("outlook-view", OutlookView);
customElements.define("owners-view", OwnersView);

/** The frame around the views. */
class ExplorerApp extends HTMLElement {
  /** @type {View | null} */
  #view = null;
  #running = new AbortController();
  #busy = false;
  #refused = false;
  #freshAt = 0;
  /** When the service last said what has changed. */
  #toldAt = 0;
  /** False after a failure: then the next beat reads the view, whenever the service has told something. */
  #caughtUp = false;
  #status = h("p.status", {});
  #banner = h("div.banner-place");
  #main = h("main", { id: "view", tabindex: "-1" });
  #nav = h("nav", { "aria-label": "Views" });
  #leave = h("button.small", { type: "button", onclick: () => this.#forget() }, "Forget token");
  #scheme = h("button.small", { type: "button", onclick: switchScheme });

  connectedCallback() {
    this.append(
      h("a.skip", { href: "#view", onclick: (/** @type {Event} */ event) => {
        event.preventDefault();
        this.#main.focus();
      } }, "To the view"),
      h("header.top", {}, h("strong.brand", {}, h("img", { src: "icon.svg", alt: "", width: "20" }),
        "Placement"), this.#nav, document.createElement("name-box"),
      h("div.corner", {}, this.#status, this.#scheme, this.#leave)),
      this.#banner, this.#main);
    window.addEventListener("hashchange", () => this.#arrive());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && Date.now() - this.#freshAt > REFRESH_MS) void this.#run(true);
    });
    this.addEventListener("retry", () => void this.#run(false));
    setInterval(() => void this.#beat(), REFRESH_MS);
    void this.#follow();
    closeMenuOnMove();
    schemeChanges.addEventListener("change", () => this.#nameScheme());
    this.#nameScheme();
    this.#arrive();
  }

  /** Refresh where the service does not say when; a policy may keep that from this user. */
  async #beat() {
    if (document.hidden || (this.#caughtUp && Date.now() - this.#toldAt < REFRESH_MS)) return;
    await this.#run(true);
  }

  /** Refresh as soon as something has changed. */
  async #follow() {
    let pending = false;
    for (;;) {
      let pause = SOON_MS;
      if (!document.hidden && session.token && isCounting()) {
        const begun = performance.now();
        try {
          const changed = await hasChanged(pending ? 0 : WAIT_S);
          this.#toldAt = Date.now();
          pending ||= changed;
          if (!changed && performance.now() - begun < SOON_MS) pause = UNWAITED_MS;
          const answered = performance.now();
          if (pending && await this.#run(true)) pending = false;
          // Something else is under way, or a menu is open: the page is read a little later.
          if (pending) pause = UNWAITED_MS;
          pause = Math.max(pause, (performance.now() - answered) * (1 / BUSY_PART - 1));
        } catch {
          this.#caughtUp = false;
          pause = REFRESH_MS;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  #arrive() {
    const place = currentPlace();
    const tag = `${place.view}-view`;
    if (this.#view?.localName !== tag) {
      this.#view = /** @type {View} */ (document.createElement(tag));
      this.#main.replaceChildren(this.#view);
      window.scrollTo(0, 0);
    }
    refill(this.#nav, Object.entries(TITLES).map(([view, title]) => h("a", {
      href: address(/** @type {import("./router.js").ViewName} */ (view)),
      "data-key": `nav ${view}`,
      "aria-current": view === place.view ? "page" : null }, title)));
    this.#view.arrive(place);
    void this.#run(false);
  }

  /**
   * Have the view read.
   *
   * @param {boolean} again a refresh, which gives way to what is under way
   * @returns {Promise<boolean>} whether it has been read
   */
  async #run(again) {
    const view = this.#view;
    if (!view || (again && (this.#busy || this.#refused || menuIsOpen()))) return false;
    if (!session.token) {
      this.#askForToken(view, "Sign in with a token");
      return false;
    }
    this.#running.abort();
    const running = (this.#running = new AbortController());
    this.#busy = true;
    this.#leave.hidden = !session.token;
    if (!again) this.#status.textContent = "Reading …";
    try {
      await Promise.all([startCounting(running.signal), readLinks(running.signal)]);
      await view.load(running.signal, again && view.drawn);
      if (running !== this.#running) return false;
      view.drawn = true;
      session.accept();
      this.#freshAt = Date.now();
      this.#caughtUp = true;
      this.#refused = false;
      this.#banner.replaceChildren();
      this.#say(`Up to date at ${timeOfDay(this.#freshAt)}`, view.summary());
      return true;
    } catch (error) {
      if (!isAbort(error) && running === this.#running) this.#fail(view, error);
      return false;
    } finally {
      if (running === this.#running) this.#busy = false;
      document.title = `${view.heading} · Placement`;
    }
  }

  /**
   * Show the card that asks for a token; nothing is asked of the service before there is one.
   *
   * @param {View} view
   * @param {string} title
   */
  #askForToken(view, title) {
    this.#refused = true;
    this.#say("A token is needed");
    this.#leave.hidden = true;
    const card = signIn(title, !view.drawn, () => {
      this.#main.focus();
      void this.#run(false);
    });
    if (view.drawn) refill(this.#banner, card);
    else refill(view, card);
    document.title = `${view.heading} · Placement`;
  }

  /**
   * @param {View} view
   * @param {unknown} error
   */
  #fail(view, error) {
    const retry = () => void this.#run(false);
    this.#caughtUp = false;
    if (error instanceof Refusal && error.status === 401) {
      const title = session.wasAccepted ? "Your token has expired" : "The service does not accept this token";
      session.end();
      this.#askForToken(view, title);
      return;
    }
    this.#refused = error instanceof Refusal && error.status === 403;
    if (!view.drawn) {
      // What it says was about the view before.
      this.#banner.replaceChildren();
      refill(view, h("h1", {}, view.heading), errorNote(error, retry));
      this.#say(errorTitle(error));
      return;
    }
    this.#say("Out of date");
    const reason = error instanceof Refusal && error.away ? "The service does not answer" :
      error instanceof Error ? error.message : String(error);
    refill(this.#banner, h("div.banner", { role: "alert" },
      h("p", {}, h("b", {}, "Out of date. "), `${reason.replace(/\.$/, "")}. This is how it was`,
        this.#freshAt ? ` at ${timeOfDay(this.#freshAt)}.` : "."),
      h("button.small", { type: "button", onclick: retry }, "Try again")));
  }

  #nameScheme() {
    const other = scheme() === "dark" ? "Light" : "Dark";
    this.#scheme.textContent = other;
    this.#scheme.title = `${other} colours`;
  }

  #forget() {
    session.end();
    forgetCloud();
    forgetChanges();
    this.#caughtUp = false;
    forgetVocabulary();
    forgetLinks();
    this.#view = null;
    this.#banner.replaceChildren();
    this.#arrive();
  }

  /**
   * Show how things stand; the time of every refresh is not read out.
   *
   * @param {string} text
   * @param {string} [spoken]
   */
  #say(text, spoken = text) {
    this.#status.textContent = text;
    announce(spoken);
  }
}

customElements.define("explorer-app", ExplorerApp);
