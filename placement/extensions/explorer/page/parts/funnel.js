/** Why a search found nothing: what every test left, the closest providers, what would make it fit. */

import { h } from "../dom.js";
import { GROUP_PARAMETER } from "../model/query.js";
import { amountOf, count, counted, label } from "../model/units.js";
import { providerName } from "./provider_menu.js";

/** @typedef {import("../model/types.js").Step} Step */
/** @typedef {import("../model/types.js").StepExample} StepExample */
/** @typedef {import("../model/types.js").Relaxation} Relaxation */
/** @typedef {import("../model/types.js").Largest} Largest */
/** @typedef {import("../model/types.js").Demand} Demand */
/** @typedef {import("../model/types.js").Count} Count */

/** @type {Record<string, string>} the tests of a search (specification 07 section 2) */
const TITLES = {
  ROOT_REQUIRED: "Root has the trait",
  ROOT_FORBIDDEN: "Root lacks the trait",
  AVOIDED: "Takes something new",
  CAPACITY: "Has enough free",
  IN_TREE: "Is in the tree",
  ALL_CLASSES: "Has all classes of the group",
  REQUIRED_TRAITS: "Has the trait",
  FORBIDDEN_TRAITS: "Lacks the trait",
  MEMBER_OF: "Is in the aggregates",
  NOT_MEMBER_OF: "Is not in the aggregates",
  NO_DEMAND: "Wants something",
  NO_CHOICE: "Tree has a provider left for this",
  OTHER_GROUPS: "Tree serves the other groups too",
};

/** @type {Record<string, string>} */
const STOPS = {
  NO_ROOT: "No root has the traits that are asked of it.",
  NO_MEMBER: "No provider is in the wanted aggregates.",
  NO_TREE: "The tree that is asked for is not there.",
  NO_CAPACITY: "No single provider can give this much.",
  NO_CHOICE: "No tree has all that this group asks.",
  NO_COMMON_TREE: "Each group has a choice, but no tree has one for every group.",
  NO_COMBINATION: "Each group has a choice, but not together: they would have to share a provider, or are not in one subtree.",
  WORK_LIMIT: "The search gave up: it tried as many placements as one may.",
};

/**
 * The steps of the search, each a line that shows how many it left.
 *
 * @param {Step[]} steps
 * @param {import("../model/types.js").Ended | null} ended
 */
export function funnel(steps, ended) {
  return h("section.funnel", {}, h("h3", {}, "How the search narrowed"),
    h("ol", {}, steps.map((step, index) => stepLine(step, index))),
    ended && h("p.ended", {}, endSentence(ended)));
}

/** @param {import("../model/types.js").Ended} ended */
export function endSentence({ why, group, subject, meaning }) {
  const sentence = STOPS[why] ?? meaning.replaceAll("`", "");
  const about = [group && `group ${group}`, subject && label(subject)].filter(Boolean).join(", ");
  return about ? `${sentence} (${about})` : sentence;
}

/** @param {Step} step @param {number} index */
function stepLine(step, index) {
  const { before, left, unit, examples } = step;
  const gone = before - left;
  const part = before > 0 ? left / before : 0;
  const line = h("div.step-line", {},
    h("span.step-title", {}, step.group !== null && step.group !== "" && h("span.group-tag", {}, step.group),
      titleOf(step)),
    h("span.step-bar", { "aria-hidden": "true" }, h("i", { "--part": part })),
    h("span.step-left", {}, h("b", {}, count(left)), ` of ${count(before)} ${unit} left`));
  const classes = left === 0 ? "step dead" : gone ? "step" : "step idle";
  if (!examples?.length) return h("li", { class: classes }, line);
  return h("li", { class: classes },
    h("details", { "data-key": `step ${index}`, open: left === 0 },
      h("summary", {}, line),
      h("p.calm", {}, `${examples.some((it) => reason(step, it)) ? "Closest of" : "Among"} the ${
        counted(gone, unit.slice(0, -1))} that it removed:`),
      h("ul.examples", {}, examples.map((it, at) => h("li", {},
        providerName(it, `example ${index} ${at}`), h("span", {}, reason(step, it)))))));
}

/**
 * What a test asks. A constant that this page does not know reads as its words.
 *
 * @param {Step} step
 */
function titleOf({ test, subject }) {
  const title = TITLES[test] ?? test.toLowerCase().replaceAll("_", " ");
  if (!subject) return title;
  return [`${title}: `, label(subject) === subject ? h("code", {}, subject) : label(subject)];
}

/**
 * What was in the way.
 *
 * @param {Step} step
 * @param {StepExample} example
 */
function reason({ subject }, example) {
  const name = subject ?? "";
  const said = [];
  if (example.asked !== undefined) said.push(...capacityReason(name, example));
  if (example.missing?.length) said.push(`does not have ${list(example.missing)}`);
  if (example.present?.length) said.push(`has ${list(example.present)}`);
  if (example.member_of) {
    const none = example.member_of.length === 0;
    said.push(none ? "is in no aggregate" : `is in ${list(example.member_of)}`);
  }
  return said.join("; ");
}

/** @param {string} name @param {StepExample} example */
function capacityReason(name, example) {
  const { asked = 0, free, total, used, reserved, min_unit, max_unit, step_size } = example;
  if (total === null) return [`has no ${label(name)} at all`];
  const said = [];
  if (free !== undefined) {
    const room = free > 0 ? `${amountOf(name, free)} free` : "nothing free";
    said.push(`${room} of ${amountOf(name, asked)} asked`);
  }
  if (used && free !== undefined && free < asked) {
    said.push(`${amountOf(name, used)} used${reserved ? `, ${amountOf(name, reserved)} reserved` : ""}`);
  }
  if (max_unit !== undefined && asked > max_unit) said.push(`at most ${amountOf(name, max_unit)} at once`);
  if (min_unit !== undefined && asked < min_unit) said.push(`at least ${amountOf(name, min_unit)} at once`);
  if (step_size !== undefined && asked % step_size) said.push(`in steps of ${amountOf(name, step_size)}`);
  return said;
}

/** @param {string[] | string} names */
function list(names) {
  return Array.isArray(names) ? names.join(", ") : names;
}

/**
 * @typedef {object} Apply
 * @property {(demands: Demand[]) => void} drop
 * @property {(change: Largest) => void} lessen
 * @property {(change: Largest) => void} part ask for it in parts
 */

/**
 * @typedef {object} Gains the candidates that a change of an amount brings, where they were counted
 * @property {Map<Largest, Count>} less of smaller amounts
 * @property {Map<Largest, Count>} parts of the same amounts from several providers
 */

/**
 * What would make it fit, as buttons that apply it.
 *
 * @param {Relaxation[]} relaxations
 * @param {Largest[]} largest
 * @param {Gains} gains
 * @param {Apply} apply
 */
export function remedies(relaxations, largest, gains, apply) {
  const less = largest.filter((it) => it.would_do !== null && it.would_do < it.asked
    && gains.less.get(it)?.count !== 0);
  const helping = relaxations.filter((it) => it.candidates.count > 0);
  const useless = relaxations.filter((it) => it.candidates.count === 0);
  return h("section.remedies", {}, h("h3", {}, "What would make it fit"),
    [...gains.parts].map(([it, candidates]) => h("button.remedy", { type: "button", onclick: () => apply.part(it) },
      h("span", {}, "Take ", h("b", {}, amountOf(it.resource_class, it.asked)), inGroup(it.group),
        ` from ${Math.ceil(it.asked / (it.would_do ?? 1))} providers instead of one`), h("span.gain", {}, found(candidates)))),
    less.map((it) => h("button.remedy", { type: "button", onclick: () => apply.lessen(it) },
      h("span", {}, "Ask for ", h("b", {}, amountOf(it.resource_class, it.would_do ?? 0)),
        ` instead of ${amountOf(it.resource_class, it.asked)}`, inGroup(it.group)), gainOf(gains.less.get(it)))),
    helping.map((it) => h("button.remedy", { type: "button", onclick: () => apply.drop(demands(it)) },
      h("span", {}, "Without ", demands(it).map((demand, at) => [at > 0 && " and ", demandName(demand)]).flat()),
      h("span.gain", {}, found(it.candidates)))),
    !gains.parts.size && !less.length && !helping.length && h("p.calm", {},
      "No single change that was tried helps, nor a pair of them."),
    useless.length > 0 && h("p.calm", {}, "Does not help alone: to go without ",
      useless.map((it, at) => [at > 0 && ", ", ...demands(it).map(demandName)]).flat(), "."));
}

/** @param {Count | undefined} candidates */
function gainOf(candidates) {
  return candidates && h("span.gain", {}, found(candidates));
}

/** @param {Relaxation} relaxation @returns {Demand[]} */
function demands({ drop }) {
  return Array.isArray(drop) ? drop : [drop];
}

/** @param {Demand} demand */
function demandName({ parameter, value }) {
  const match = /^resources(.*)$/.exec(parameter);
  const [name, number] = value.split(":");
  if (match && number) return h("b", {}, amountOf(name, Number(number)), inGroup(match[1]));
  const [kind, suffix] = split(parameter);
  const names = value.replace(/^!?(in:)?/, "");
  /** @type {Record<string, string>} */
  const said = {
    required: value.startsWith("!") ? "the ban on " : value.startsWith("in:") ? "one of " : "the trait ",
    member_of: value.startsWith("!") ? "the ban on the aggregates " : "the aggregates ",
    in_tree: "the tree ",
    root_required: value.startsWith("!") ? "the ban on a root with " : "a root with ",
    same_subtree: "one subtree for ",
  };
  if (kind === "group_policy") return h("b", {}, "a provider of its own for each group");
  return h("b", {}, said[kind] ?? `${kind} `, h("code", {}, names), inGroup(suffix));
}

/**
 * A parameter of the query and the suffix of its group.
 *
 * @param {string} parameter
 */
function split(parameter) {
  const match = GROUP_PARAMETER.exec(parameter);
  return match ? [match[1], match[2]] : [parameter, ""];
}

/** @param {string | null} suffix */
function inGroup(suffix) {
  return suffix ? ` in ${suffix}` : "";
}

/** @param {Count} candidates */
export function found({ count: number, complete }) {
  return `${complete ? "" : "at least "}${counted(number, "candidate")}`;
}
