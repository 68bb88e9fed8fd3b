/** The question of the page as commands for a shell. */

import { readable } from "../router.js";

/** @typedef {import("./query.js").Query} Query */
/** @typedef {import("./query.js").Group} Group */

/** @type {Record<string, string>} */
const PATHS = { candidates: "allocation_candidates", explain: "-/explain", capacity: "-/capacity" };

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

/**
 * A word as a POSIX shell reads it back.
 *
 * @param {string} word
 */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * Commands that ask for the plan of the page, and for the commands that let Nova carry it out.
 *
 * @param {string} target
 * @param {string} microversion
 * @param {{place: string} | {empty: {trees: string[]}}} goal
 */
export function planCommands(target, microversion, goal) {
  const [option, value] = "place" in goal ? ["--place", goal.place] : ["--empty", goal.empty.trees[0]];
  const words = ["openstack", "--os-placement-api-version", microversion, "placement", "plan", "create", option, value];
  const command = words.map(quoted).join(" ");
  return [
    { title: "curl", text: curl(target, microversion, JSON.stringify({ goal })) },
    { title: "openstack", text: command },
    { title: "openstack, Nova", text: `${command} --commands`, note: "Prints the commands of openstack server that carry it out." },
  ];
}
