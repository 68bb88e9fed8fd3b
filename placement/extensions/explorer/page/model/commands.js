/** The question of the page as commands for a shell. */

import { readable } from "../router.js";

/** @typedef {import("./query.js").Query} Query */
/** @typedef {import("./query.js").Group} Group */

/** @type {Record<string, string>} */
const PATHS = { candidates: "allocation_candidates", explain: "-/explain", capacity: "-/capacity" };
const PLAN = ["placement", "plan"];

/**
 * @param {URL} root
 * @param {keyof PATHS} question
 * @param {URLSearchParams} params
 */
export function url(root, question, params) {
  return new URL(`${PATHS[question]}?${readable(params)}`, root).href;
}

/**
 * @param {string} target
 * @param {string} microversion
 * @param {string} [body] in JSON; then it is a POST.
 */
export function curl(target, microversion, body) {
  const sent = body === undefined ? "" : `-H 'Content-Type: application/json' -d ${quoted(body)} `;
  return `curl -s ${sent}-H "X-Auth-Token: $OS_TOKEN" -H 'OpenStack-API-Version: placement ${microversion}' ${quoted(target)}`;
}

/**
 * The openstack command, or why there is none.
 *
 * @param {Query} query
 * @param {string} microversion
 * @param {"list" | "explain" | "capacity"} [verb]
 * @returns {{command: string, notes: string[]}} notes: where it asks something else
 */
export function openstack(query, microversion, verb = "list") {
  const words = ["openstack", "--os-placement-api-version", microversion];
  words.push("allocation", "candidate", verb);
  /** @type {string[]} */
  const missing = [];
  const names = shortNames(query.groups.map((it) => it.suffix));
  for (const group of query.groups) {
    if (group.suffix) words.push("--group", names.get(group.suffix) ?? "");
    words.push(...groupOptions(group, missing));
  }
  if (query.policy && query.groups.some((it) => it.suffix)) {
    words.push("--group-policy", query.policy);
  }
  if (query.limit) words.push("--limit", query.limit);
  if (query.sameSubtree.length) missing.push("same_subtree");
  if (query.rootRequired) missing.push("root_required");
  const notes = [];
  if (missing.length) {
    notes.push(`The command has no option for ${[...new Set(missing)].join(", ")}: it asks without.`);
  }
  const renamed = [...names].filter(([suffix, name]) => suffix !== name);
  if (renamed.length) {
    const said = renamed.map(([suffix, name]) => `${suffix} is ${name}`).join(", ");
    notes.push(`It takes one character for a group: ${said}.`);
  }
  return { command: words.map(quoted).join(" "), notes };
}

/**
 * A name of one character for every suffix: osc-placement takes no longer ones.
 *
 * @param {string[]} suffixes
 * @returns {Map<string, string>}
 */
function shortNames(suffixes) {
  const free = [..."123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"].filter((it) => !suffixes.includes(it));
  return new Map(suffixes.filter(Boolean).map(
    (suffix) => [suffix, suffix.length === 1 ? suffix : (free.shift() ?? suffix)]));
}

/**
 * @param {Group} group
 * @param {string[]} missing
 */
function groupOptions(group, missing) {
  const words = [];
  for (const { name, amount } of group.amounts) words.push("--resource", `${name}=${amount}`);
  for (const { kind, value } of group.conditions) {
    if (kind === "has" || kind === "oneOf") words.push("--required", value);
    else if (kind === "lacks") words.push("--forbidden", value);
    else if (kind === "inAggregate") words.push("--member-of", value);
    else missing.push(kind === "inTree" ? "in_tree" : "member_of=!in:");
  }
  return words;
}

/** What a terminal could act on while it is pasted, quoted or not: \x15 deletes what stands before it. */
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/u;

/**
 * A word as a shell reads it back; with unprintable characters in the form $'…', as commands print it.
 *
 * @param {string} word
 */
export function quoted(word) {
  if (UNPRINTABLE.test(word)) return `$'${[...word].map(escaped).join("")}'`;
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** @param {string} character */
function escaped(character) {
  if (character === "'" || character === "\\") return `\\${character}`;
  if (!UNPRINTABLE.test(character)) return character;
  return [...new TextEncoder().encode(character)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}

/** @typedef {{place: string} | {empty: {trees: string[]}}} Goal of a plan */

/**
 * Commands that ask for the plan of the page.
 *
 * @param {string} target
 * @param {string} microversion
 * @param {Goal} goal
 */
export function planCommands(target, microversion, goal) {
  const words = ["openstack", "--os-placement-api-version", microversion, ...PLAN, "create", ...goalWords(goal)];
  return [
    { title: "curl", text: curl(target, microversion, JSON.stringify({ goal })) },
    { title: "openstack", text: words.map(quoted).join(" ") },
  ];
}

/**
 * Commands that have Nova carry out the plan of the page.
 *
 * @param {Goal} goal
 * @param {string} host the name of the host that is to be empty; "" for another goal
 */
export function carryOutCommands(goal, host) {
  // An argument that begins like an option cannot be given: the uuid can.
  const named = host && !host.startsWith("-") ? host : "";
  const words = named ? ["--empty", named] : goalWords(goal);
  const run = ["openstack", ...PLAN, "run", ...words].map(quoted).join(" ");
  const list = ["openstack", ...PLAN, "create", ...words, "--commands"].map(quoted).join(" ");
  const disable = ["openstack", "compute", "service", "set", "--disable", named, "nova-compute"].map(quoted).join(" ");
  return [
    ...named ? [{ title: "Disable it", text: disable,
      note: "This keeps new servers away. The compute service may have a shorter name than the provider." }] : [],
    { title: "Try", text: `${run} --dry-run`, note: "This says what would be done, and moves nothing." },
    { title: "Run", text: run },
    { title: "Or read first", text: list, note: "This prints the commands of openstack server that carry the plan out, one step a line." },
  ];
}

/** @param {Goal} goal */
function goalWords(goal) {
  return "place" in goal ? ["--place", goal.place] : ["--empty", goal.empty.trees[0]];
}
