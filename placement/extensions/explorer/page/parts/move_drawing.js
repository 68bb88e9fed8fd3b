/** Moves drawn as numbered arrows between hosts: a line for each host, and time from left to right. */

import { h, svg } from "../dom.js";
import { counted } from "../model/units.js";
import { address } from "../router.js";
import { scroller } from "./scroller.js";

/** @typedef {import("../model/moves.js").Host} Host */
/** @typedef {import("../model/moves.js").Arrow} Arrow */

/** As in the style sheet. */
const LINE = 36;
const STEP = 32;
const RADIUS = 12;
const HEAD = 8;
const END = 76;

/**
 * @param {Host[]} hosts
 * @param {Arrow[]} arrows
 * @param {{count: number, words: string}} goal how many of the hosts, the first ones, are the goal, and what they are in the end
 */
export function moveDrawing(hosts, arrows, goal) {
  const [width, height] = [arrows.length * STEP + END + STEP / 2, hosts.length * LINE];
  return h("div.moves", {},
    h("ol.move-hosts", {}, hosts.map(({ uuid, name }, at) => h("li", { class: at < goal.count ? "goal" : null },
      h("a", { href: address("tree", uuid), title: name, "data-key": `move ${uuid}` }, name)))),
    scroller("Steps from left to right",
      svg("svg", { role: "img", width, height, viewBox: `0 0 ${width} ${height}`,
        "aria-label": `${counted(arrows.length, "step")} as arrows between ${counted(hosts.length, "host")}; the table says the same.` },
      hosts.map((_, at) => at < goal.count && svg("rect.move-goal", { x: 0, y: at * LINE + 2, width, height: LINE - 4, rx: 6 })),
      hosts.map((_, at) => svg("line.move-line", { x1: 0, x2: at < goal.count ? width - END : width, y1: middle(at), y2: middle(at) })),
      arrows.map(drawArrow),
      hosts.map((_, at) => at < goal.count && svg("text.move-end", { x: width - 8, y: middle(at) + 4 }, goal.words)))));
}

/** @param {number} host */
function middle(host) {
  return host * LINE + LINE / 2;
}

/** @param {Arrow} arrow @param {number} at */
function drawArrow({ from, to }, at) {
  const x = at * STEP + STEP / 2;
  const [begin, end, way] = [middle(from), middle(to), Math.sign(to - from)];
  const tail = end - way * HEAD;
  return svg("g.move", {},
    svg("line", { x1: x, x2: x, y1: begin + way * RADIUS, y2: tail }),
    svg("path", { d: `M ${x - 5} ${tail} L ${x} ${end} L ${x + 5} ${tail} z` }),
    svg("circle", { cx: x, cy: begin, r: RADIUS }),
    svg("text", { x, y: begin + 4 }, at + 1));
}
