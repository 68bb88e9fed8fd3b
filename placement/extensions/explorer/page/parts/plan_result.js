/** A plan in words, as arrows and as a table; or why there is none. */

import { h } from "../dom.js";
import { carryOutCommands } from "../model/commands.js";
import { arrowsOf } from "../model/moves.js";
import { amounts, count, counted, total } from "../model/units.js";
import { address } from "../router.js";
import { copyLine } from "./copy_lines.js";
import { homelessTable } from "./drain_result.js";
import { funnel } from "./funnel.js";
import { moveDrawing } from "./move_drawing.js";
import { outLink } from "./out_link.js";
import { scroller } from "./scroller.js";

/** @typedef {import("../model/types.js").Plan} Plan */
/** @typedef {import("../model/types.js").Move} Move */
/** @typedef {import("../model/types.js").NoPlan} NoPlan */
/** @typedef {import("../model/types.js").Tree} Tree */
/** @typedef {import("../model/moves.js").Host} Host */

/** The steps that are drawn, and listed: more are carried out by commands, not by eye. */
export const SHOWN = 100;

/** The host that is to be empty, or null: a request is to fit. */
/** @typedef {Host | null} Emptied */

/**
 * @param {Plan} plan
 * @param {Map<string, Tree>} trees of the steps that are shown and of the goal, by the uuid of each provider
 * @param {Emptied} emptied
 * @param {import("../model/commands.js").Goal} goal
 */
export function planResult(plan, trees, emptied, goal) {
  const steps = plan.steps.slice(0, SHOWN);
  const goals = emptied ? [emptied.uuid] : (plan.placed ?? []).map((it) => it.root_provider_uuid);
  const { hosts, arrows } = arrowsOf(steps, trees, goals);
  const left = plan.steps.length - steps.length;
  return [
    h("section.verdict.could", {},
      h("h2", { "data-summary": true }, whatItDoes(plan, emptied)),
      steps.length > 0 && h("p", {}, certainty(plan)),
      !emptied && h("p", {}, steps.length ? "Then there is room on " : "There is room on ",
        hosts.slice(0, new Set(goals).size).map(({ uuid, name }, at) => [at > 0 && ", ", hostLink(uuid, name)]).flat(), ".")),
    steps.length > 0 && h("section", {}, h("h3", {}, "In this order"),
      h("p.calm", {}, "Each number is a step. It stands on the host that is left, and its arrow points to the host that takes over, which has room",
        " before anything is freed, as a live migration needs. This is advice: nothing is held, and others may take the room."),
      moveDrawing(hosts, arrows, { count: new Set(goals).size, words: emptied ? "is empty" : "fits here" }),
      stepTable(steps, hosts, arrows),
      left > 0 && h("p.calm", {}, `and ${counted(left, "more step")}: the commands below list all.`)),
    steps.length > 0 && doIt(goal, emptied),
  ];
}

/** @param {import("../model/commands.js").Goal} goal @param {Emptied} emptied */
function doIt(goal, emptied) {
  return h("section", { "aria-label": "Do it" }, h("h3", {}, "Do it"),
    h("p.calm", {}, "Run these commands as an administrator of Nova. They make the plan once more, and move one server after the other."),
    carryOutCommands(goal, emptied?.name ?? "").map(copyLine));
}

/** @param {Plan} plan @param {Emptied} emptied */
function whatItDoes({ steps }, emptied) {
  const moves = counted(steps.length, "move");
  if (emptied) {
    return steps.length ? `${moves} ${steps.length === 1 ? "empties" : "empty"} ${emptied.name}`
      : `${emptied.name} is empty: nothing must move`;
  }
  return steps.length ? `${moves} ${steps.length === 1 ? "makes" : "make"} room` : "It fits as it is: nothing must move";
}

/** What is known of the cost, which is the number of moves. @param {Plan} plan */
function certainty({ cost, lower_bound, minimal, complete }) {
  if (minimal) return "It is proven that fewer are not enough.";
  const bound = Math.ceil(lower_bound - 1e-6);
  const known = bound > 0 ? `It is proven that fewer than ${count(bound)} are not enough` : "How many are needed at least is not known";
  return `${known}; whether ${count(cost)} are the fewest is not. ${complete ? "The search can tell no more."
    : "The time for the search was over: another try may find a shorter plan."}`;
}

/** @param {Move[]} steps @param {Host[]} hosts @param {import("../model/moves.js").Arrow[]} arrows */
function stepTable(steps, hosts, arrows) {
  const host = (/** @type {number} */ at) => h("td.host", {}, hostLink(hosts[at].uuid, hosts[at].name));
  return scroller("Steps", h("table.steps", {},
    h("thead", {}, h("tr", {}, ["Step", "Consumer", "From", "To", "Moves", "Type", "Project"].map(
      (title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, steps.map((step, at) => h("tr", {},
      h("th", { scope: "row" }, at + 1),
      h("td", {}, h("a.uuid", { href: address("owners", "", { consumer: step.consumer_uuid }) }, step.consumer_uuid),
        outLink("consumer", step.consumer_uuid)),
      host(arrows[at].from),
      host(arrows[at].to),
      h("td.amounts", {}, amounts(total(Object.fromEntries(Object.entries(step.from).map(([uuid, it]) => [uuid, it.resources]))))),
      h("td", {}, step.consumer_type),
      h("td", {}, step.project_id, outLink("project", step.project_id)))))));
}

/** @param {string} uuid @param {string} name */
function hostLink(uuid, name) {
  return h("a", { href: address("tree", uuid) }, name);
}

/**
 * @param {NoPlan} why
 * @param {Emptied} emptied
 * @param {string} search the address of the search for what does not fit
 */
export function noPlanResult({ exact, groups, homeless = [], explanation }, emptied, search) {
  const aim = emptied ? `empty ${emptied.name}` : "make room for this";
  return [
    h("section.verdict.cannot", {},
      h("h2", { "data-summary": true }, exact ? `No moves ${aim}` : `No moves were found that ${aim}`),
      h("p", {}, exact ? "It is proven: whatever moves, in whatever order."
        : "There may be some: not everything was tried."),
      groups.length > 0 && h("p", {}, `The rules of these groups are in the way: ${groups.join(", ")}.`),
      homeless.length > 0 && h("p", {}, `${counted(homeless.length, "consumer")} cannot leave:`),
      homeless.length > 0 && homelessTable(homeless)),
    explanation && funnel(explanation.steps, explanation.stopped ?? explanation.combining ?? null),
    explanation && h("p", {}, h("a", { href: search }, "What else would make it fit?")),
  ];
}
