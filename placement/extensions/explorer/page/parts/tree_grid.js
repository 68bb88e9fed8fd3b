/** All trees as a grid of cells on canvas, coloured by how full they are. */

import { h, breathe } from "../dom.js";
import { LEVELS, OVER } from "../model/fullness.js";
import { label, percent } from "../model/units.js";
import { address, go } from "../router.js";
import { schemeChanges } from "../scheme.js";

/** @typedef {{root: string, name: string, level: number, ratio: number, className: string | null, outOfService: boolean}} Cell */

const BAND_HEIGHT = 480;
const WANTED_HEIGHT = 480;
const SMALL = 16;
/** Cells per slice of drawing: well under the 50 ms that nothing may block. */
const SLICE = 1500;

/**
 * The side of a cell: few trees get large cells, ten thousand get small ones.
 *
 * @param {number} cells
 * @param {number} width
 */
function pitchFor(cells, width) {
  const filling = Math.floor(Math.sqrt((width * WANTED_HEIGHT) / Math.max(1, cells)));
  return Math.max(14, Math.min(44, filling));
}

/** The grid; `show` gives it its cells. The canvas is in bands, which the browser scrolls by itself. */
export class TreeGrid extends HTMLElement {
  /** @type {Cell[]} */
  #cells = [];
  #ofAll = 0;
  #title = "";
  #cursor = 0;
  #columns = 1;
  #pitch = 28;
  #drawing = 0;
  #field = h("div.field");
  #bands = h("div.bands");
  #ring = h("div.ring", { hidden: true });
  #tip = h("div.tip", { hidden: true });
  #spoken = h("p.spoken", { "aria-live": "polite" });
  #observer = new ResizeObserver(() => this.#layout());
  #repaint = () => this.#layout(true);

  connectedCallback() {
    if (!this.#bands.isConnected) this.#build();
    this.#observer.observe(this);
    schemeChanges.addEventListener("change", this.#repaint);
  }

  disconnectedCallback() {
    this.#observer.disconnect();
    schemeChanges.removeEventListener("change", this.#repaint);
  }

  #build() {
    this.#field = h("div.field", {
      tabindex: "0", role: "application", "data-key": "grid",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      onfocus: () => this.#moveTo(this.#cursor),
      onblur: () => { this.#ring.hidden = true; this.#tip.hidden = true; },
      onpointermove: (/** @type {PointerEvent} */ event) => this.#hover(event),
      onpointerleave: () => { this.#tip.hidden = true; },
      onclick: (/** @type {PointerEvent} */ event) => this.#open(this.#at(event)),
    }, this.#bands, this.#ring, this.#tip);
    this.append(this.#field, this.#spoken);
    this.#name();
  }

  #name() {
    const what = this.#title && ` of ${this.#title}`;
    this.#field.setAttribute("aria-label", `Grid of trees${what}. Arrow keys move, Enter opens the tree.`);
  }

  /**
   * @param {Cell[]} cells
   * @param {{title: string, ofAll: number}} group ofAll: how many cells there are in all grids of the page
   */
  show(cells, { title, ofAll }) {
    this.#cells = cells;
    this.#title = title;
    this.#ofAll = ofAll;
    this.#name();
    this.#cursor = Math.min(this.#cursor, Math.max(0, cells.length - 1));
    this.#layout(true);
  }

  /** @param {boolean} [always] */
  #layout(always = false) {
    const width = this.clientWidth;
    const pitch = pitchFor(this.#ofAll, width);
    const columns = Math.max(1, Math.floor(width / pitch));
    if (!width || (!always && columns === this.#columns && pitch === this.#pitch)) return;
    this.#columns = columns;
    this.#pitch = pitch;
    void this.#draw();
  }

  async #draw() {
    const drawing = ++this.#drawing;
    const colours = this.#colours();
    const rows = Math.ceil(this.#cells.length / this.#columns);
    const rowsOfBand = Math.max(1, Math.floor(BAND_HEIGHT / this.#pitch));
    const bands = Math.ceil(rows / rowsOfBand);
    while (this.#bands.childElementCount > bands) this.#bands.lastElementChild?.remove();
    for (let band = 0, drawn = 0; band < bands; band += 1) {
      const first = band * rowsOfBand * this.#columns;
      const cells = this.#cells.slice(first, first + rowsOfBand * this.#columns);
      this.#paint(this.#canvas(band), cells, colours);
      drawn += cells.length;
      if (drawn > SLICE) {
        drawn = 0;
        await breathe();
        if (drawing !== this.#drawing) return;
      }
    }
  }

  /** @param {number} band */
  #canvas(band) {
    let canvas = this.#bands.children[band];
    if (!canvas) this.#bands.append((canvas = h("canvas", { "aria-hidden": "true" })));
    return /** @type {HTMLCanvasElement} */ (canvas);
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Cell[]} cells
   * @param {{steps: string[], over: string, line: string, ink: string, panel: string}} colours
   */
  #paint(canvas, cells, { steps, over, line, ink, panel }) {
    const pitch = this.#pitch;
    const scale = Math.min(2, devicePixelRatio || 1);
    const height = Math.ceil(cells.length / this.#columns) * pitch;
    canvas.width = this.#columns * pitch * scale;
    canvas.height = height * scale;
    canvas.style.width = `${this.#columns * pitch}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    if (!pen) return;
    pen.scale(scale, scale);
    const side = pitch - (pitch > 30 ? 6 : pitch > SMALL ? 4 : 2);
    const round = pitch > 30 ? 6 : 4;
    cells.forEach((cell, index) => {
      const x = (index % this.#columns) * pitch + 1;
      const y = Math.floor(index / this.#columns) * pitch + 1;
      pen.fillStyle = cell.level === OVER ? over : steps[cell.level];
      if (pitch <= SMALL) pen.fillRect(x, y, side, side);
      else {
        pen.beginPath();
        pen.roundRect(x, y, side, side, round);
        pen.fill();
      }
      if (cell.level === 0) {
        pen.strokeStyle = line;
        if (pitch <= SMALL) pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
        else pen.stroke();
      } else if (cell.level === OVER) {
        pen.strokeStyle = "#fff";
        pen.lineWidth = 1.5;
        pen.beginPath();
        pen.moveTo(x + side * 0.3, y + side * 0.7);
        pen.lineTo(x + side * 0.7, y + side * 0.3);
        pen.stroke();
        pen.lineWidth = 1;
      }
      if (cell.outOfService) {
        // Light with a dark edge: it is seen on every step of the scale.
        pen.fillStyle = panel;
        pen.strokeStyle = ink;
        const bar = [x + side * 0.15, y + side * 0.36, side * 0.7, side * 0.28];
        pen.fillRect(bar[0], bar[1], bar[2], bar[3]);
        pen.strokeRect(bar[0], bar[1], bar[2], bar[3]);
      }
    });
  }

  #colours() {
    const style = getComputedStyle(this);
    const steps = Array.from({ length: LEVELS + 1 },
      (_, step) => style.getPropertyValue(`--full-${step}`).trim());
    return { steps, over: style.getPropertyValue("--over").trim(),
      line: style.getPropertyValue("--line-strong").trim(), ink: style.getPropertyValue("--ink").trim(),
      panel: style.getPropertyValue("--panel").trim() };
  }

  /** @param {PointerEvent} event */
  #at(event) {
    const box = this.#bands.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.#pitch);
    const row = Math.floor((event.clientY - box.top) / this.#pitch);
    return column < this.#columns && column >= 0 ? row * this.#columns + column : -1;
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    const index = this.#at(event);
    this.style.cursor = this.#cells[index] ? "pointer" : "";
    this.#showTip(index);
  }

  /** @param {number} index */
  #showTip(index) {
    const cell = this.#cells[index];
    this.#tip.hidden = !cell;
    if (!cell) return;
    this.#tip.textContent = describe(cell);
    const x = (index % this.#columns) * this.#pitch;
    const left = Math.max(0, Math.min(x, this.clientWidth - this.#tip.offsetWidth));
    const y = Math.floor(index / this.#columns) * this.#pitch;
    this.#tip.style.transform = `translate(${left}px, ${y + this.#pitch + 4}px)`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#columns, ArrowDown: this.#columns,
      Home: -this.#cells.length, End: this.#cells.length };
    if (event.key === "Enter") this.#open(this.#cursor);
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (step === undefined) return;
    event.preventDefault();
    this.#moveTo(this.#cursor + step);
  }

  /** @param {number} index */
  #moveTo(index) {
    this.#cursor = Math.max(0, Math.min(this.#cells.length - 1, index));
    const cell = this.#cells[this.#cursor];
    this.#ring.hidden = !cell;
    if (!cell) return;
    const x = (this.#cursor % this.#columns) * this.#pitch;
    const y = Math.floor(this.#cursor / this.#columns) * this.#pitch;
    this.#ring.style.width = this.#ring.style.height = `${this.#pitch}px`;
    this.#ring.style.transform = `translate(${x}px, ${y}px)`;
    this.#ring.scrollIntoView({ block: "nearest" });
    this.#showTip(this.#cursor);
    this.#spoken.textContent = describe(cell);
  }

  /** @param {number} index */
  #open(index) {
    const cell = this.#cells[index];
    if (cell) go(address("tree", cell.root));
  }
}

/** @param {Cell} cell */
function describe(cell) {
  const out = cell.outOfService ? ", out of service" : "";
  if (cell.ratio < 0) return `${cell.name}: has none${out}`;
  const what = cell.className ? ` ${label(cell.className).toLowerCase()} in use` : "";
  const over = cell.level === OVER ? ", over capacity" : "";
  return `${cell.name}: ${percent(cell.ratio)}${what}${over}${out}`;
}

customElements.define("tree-grid", TreeGrid);
