/** The grid of trees in groups, each under its title; a group without a title is the plain grid. */

import { h, refill } from "../dom.js";
import { TreeGrid } from "./tree_grid.js";

/** @typedef {import("./tree_grid.js").Cell} Cell */
/** @typedef {{key: string, title: string, href: string | null, note: string, cells: Cell[]}} Section */
/** @typedef {{place: HTMLElement, head: HTMLElement, grid: TreeGrid}} Place of a section on the page */

/** The sections; what stays from one drawing to the next stays on the page, with the focus in it. */
export class GroupedGrid extends HTMLElement {
  /** @type {Map<string, Place>} */
  #places = new Map();

  /**
   * Show the sections, each in a part of its own.
   *
   * @param {Section[]} sections
   * @returns {Generator<() => void>}
   */
  *show(sections) {
    const before = this.#places;
    this.#places = new Map(sections.map(({ key }) => [key, before.get(key) ?? emptyPlace()]));
    const places = [...this.#places.values()];
    if (JSON.stringify([...before.keys()]) !== JSON.stringify([...this.#places.keys()])) {
      refill(this, places.map(({ place }) => place));
    }
    const cells = sections.reduce((sum, section) => sum + section.cells.length, 0);
    for (const [at, section] of sections.entries()) {
      yield () => {
        drawHead(places[at].head, section);
        places[at].grid.show(section.cells, { title: section.title, ofAll: cells });
      };
    }
  }
}

/** @returns {Place} */
function emptyPlace() {
  const [head, grid] = [h("header"), new TreeGrid()];
  return { place: h("section", {}, head, grid), head, grid };
}

/** @param {HTMLElement} head @param {Section} section */
function drawHead(head, { key, title, href, note }) {
  head.hidden = !title;
  if (!title) return;
  refill(head, h("h3", {}, href ? h("a", { href, "data-key": `group ${key}` }, title) : title), h("small", {}, note));
}

customElements.define("grouped-grid", GroupedGrid);
