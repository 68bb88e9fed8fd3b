/** The base of every view: an element that draws a place, and reads again when asked. */

import { refill } from "../dom.js";
import { loadingNote } from "../parts/state_note.js";

/** @typedef {import("../router.js").Place} Place */

/** A view; its subclass reads in `load` and draws. */
export class View extends HTMLElement {
  constructor() {
    super();
    /** @type {URLSearchParams} */
    this.params = new URLSearchParams();
    this.argument = "";
    /** Whether there is something on the page that stays if reading fails. */
    this.drawn = false;
    /** The title of the page while this view is open. */
    this.heading = "Placement";
  }

  /** @param {Place} place */
  arrive(place) {
    this.params = place.params;
    this.argument = place.argument;
  }

  /**
   * Read and draw.
   *
   * @param {AbortSignal} _signal
   * @param {boolean} _again whether this is a refresh of what is drawn
   * @returns {Promise<void>}
   */
  async load(_signal, _again) {}

  /** @param {string} text */
  showLoading(text) {
    if (!this.drawn) refill(this, loadingNote(text));
  }

  /** The view in a sentence, for screen readers. */
  summary() {
    return this.querySelector("[data-summary]")?.textContent ?? this.heading;
  }

  /** Read again now. */
  retry() {
    this.dispatchEvent(new CustomEvent("retry", { bubbles: true }));
  }
}
