/** A candidate query as the form edits it, and as parameters of the API (specification 04). */

/** @typedef {import("./types.js").Demand} Demand */
/** @typedef {"has" | "lacks" | "oneOf" | "inAggregate" | "notInAggregate" | "inTree"} ConditionKind */
/** @typedef {{kind: ConditionKind, value: string}} Condition */
/** @typedef {{name: string, amount: string}} Amount */
/** @typedef {{suffix: string, amounts: Amount[], conditions: Condition[]}} Group */
/**
 * @typedef {object} Query
 * @property {Group[]} groups
 * @property {string} policy "", "none" or "isolate"
 * @property {string[]} sameSubtree each a comma-separated list of suffixes
 * @property {string} rootRequired
 * @property {string} limit
 */

/** A parameter of a group: its name, and the suffix of the group. */
export const GROUP_PARAMETER = /^(resources|required|member_of|in_tree)([\w-]*)$/;

/** @returns {Query} */
export function emptyQuery() {
  return { groups: [], policy: "", sameSubtree: [], rootRequired: "", limit: "" };
}

/**
 * @param {string} [suffix]
 * @returns {Group}
 */
export function emptyGroup(suffix = "") {
  return { suffix, amounts: [], conditions: [] };
}

/**
 * Read a query; other parameters are skipped.
 *
 * @param {URLSearchParams} params
 * @returns {Query}
 */
export function parseQuery(params) {
  const query = emptyQuery();
  for (const [name, value] of params) {
    const match = GROUP_PARAMETER.exec(name);
    if (name === "group_policy") query.policy = value;
    else if (name === "same_subtree") query.sameSubtree.push(value);
    else if (name === "root_required") query.rootRequired = value;
    else if (name === "limit") query.limit = value;
    else if (match) readPart(groupOf(query, match[2] ?? ""), match[1], value);
  }
  query.groups.sort((a, b) => (a.suffix < b.suffix ? -1 : Number(a.suffix > b.suffix)));
  return query;
}

/**
 * @param {Query} query
 * @param {string} suffix
 */
function groupOf(query, suffix) {
  let group = query.groups.find((it) => it.suffix === suffix);
  if (!group) query.groups.push((group = emptyGroup(suffix)));
  return group;
}

/**
 * @param {Group} group
 * @param {string} parameter
 * @param {string} value
 */
function readPart(group, parameter, value) {
  if (parameter === "resources") {
    for (const part of value.split(",").filter(Boolean)) {
      const [name, amount = ""] = part.split(":");
      group.amounts.push({ name, amount });
    }
  } else {
    group.conditions.push(...readConditions(parameter, value));
  }
}

/**
 * @param {string} parameter
 * @param {string} value
 * @returns {Condition[]}
 */
function readConditions(parameter, value) {
  if (parameter === "in_tree") return [{ kind: "inTree", value }];
  if (parameter === "member_of") {
    return value.startsWith("!")
      ? [{ kind: "notInAggregate", value: value.slice(1).replace(/^in:/, "") }]
      : [{ kind: "inAggregate", value: value.replace(/^in:/, "") }];
  }
  if (value.startsWith("in:")) return [{ kind: "oneOf", value: value.slice(3) }];
  return value.split(",").filter(Boolean).map((name) => name.startsWith("!")
    ? { kind: "lacks", value: name.slice(1) }
    : { kind: "has", value: name });
}

/**
 * @param {Query} query
 * @returns {URLSearchParams}
 */
export function toParams(query) {
  const params = new URLSearchParams();
  for (const group of query.groups) writeGroup(params, group);
  const suffixed = query.groups.filter((group) => group.suffix && group.amounts.some(isWhole));
  if (query.policy) params.append("group_policy", query.policy);
  // The API insists on a policy as soon as two groups could meet on one provider.
  else if (suffixed.length > 1) params.append("group_policy", "none");
  for (const subtree of query.sameSubtree) if (subtree) params.append("same_subtree", subtree);
  if (query.rootRequired) params.append("root_required", query.rootRequired);
  if (query.limit) params.append("limit", query.limit);
  return params;
}

/** @param {Amount} amount */
function isWhole(amount) {
  return amount.name !== "" && amount.amount !== "";
}

/**
 * @param {URLSearchParams} params
 * @param {Group} group
 */
function writeGroup(params, group) {
  const amounts = group.amounts.filter(isWhole).map((it) => `${it.name}:${it.amount}`);
  if (amounts.length) params.append(`resources${group.suffix}`, amounts.join(","));
  const names = [];
  for (const { kind, value } of group.conditions) {
    if (!value) continue;
    if (kind === "has") names.push(value);
    else if (kind === "lacks") names.push(`!${value}`);
    else if (kind === "oneOf") params.append(`required${group.suffix}`, `in:${value}`);
    else if (kind === "inTree") params.append(`in_tree${group.suffix}`, value);
    else {
      const list = value.includes(",") ? `in:${value}` : value;
      params.append(`member_of${group.suffix}`, kind === "inAggregate" ? list : `!${list}`);
    }
  }
  if (names.length) params.append(`required${group.suffix}`, names.join(","));
}

/** Whether the query asks for anything. @param {Query} query */
export function asksSomething(query) {
  return query.groups.some((group) => group.amounts.some(isWhole));
}

/**
 * The query without one demand (specification 07 section 2.1).
 *
 * @param {Query} query
 * @param {Demand} demand
 * @returns {Query}
 */
export function without(query, demand) {
  /** @type {Query} */
  const next = structuredClone(query);
  const match = GROUP_PARAMETER.exec(demand.parameter);
  if (demand.parameter === "group_policy") next.policy = "none";
  else if (demand.parameter === "same_subtree") {
    next.sameSubtree = next.sameSubtree.filter((it) => it !== demand.value);
  } else if (demand.parameter === "root_required") {
    next.rootRequired = next.rootRequired.split(",").filter((it) => it !== demand.value).join(",");
  } else if (match) {
    const group = next.groups.find((it) => it.suffix === (match[2] ?? ""));
    if (group) dropPart(next, group, match[1], demand.value);
  }
  return next;
}

/**
 * @param {Query} query
 * @param {Group} group
 * @param {string} parameter
 * @param {string} value
 */
function dropPart(query, group, parameter, value) {
  if (parameter === "resources") {
    group.amounts = group.amounts.filter((it) => `${it.name}:${it.amount}` !== value);
  } else {
    const [gone] = readConditions(parameter, value);
    group.conditions = group.conditions.filter(
      (it) => it.kind !== gone.kind || it.value !== gone.value);
  }
  const traits = group.conditions.some((it) => ["has", "lacks", "oneOf"].includes(it.kind));
  if (group.amounts.length || traits) return;
  query.groups = query.groups.filter((it) => it !== group);
  query.sameSubtree = query.sameSubtree
    .map((it) => it.split(",").filter((suffix) => suffix !== group.suffix).join(","))
    .filter(Boolean);
}

/**
 * The query with another amount of one class.
 *
 * @param {Query} query
 * @param {string} suffix
 * @param {string} name
 * @param {number} amount
 * @returns {Query}
 */
export function withAmount(query, suffix, name, amount) {
  /** @type {Query} */
  const next = structuredClone(query);
  for (const it of next.groups.find((group) => group.suffix === suffix)?.amounts ?? []) {
    if (it.name === name) it.amount = String(amount);
  }
  return next;
}

const MOST_PARTS = 8;

/**
 * The query with one amount in parts, each a group of its own on a provider of its own: two cards of
 * four where no card has eight.
 *
 * @param {Query} query
 * @param {string} suffix of the group that asks for too much at once
 * @param {string} name
 * @param {number} most what one provider would give
 * @returns {Query | null} null where that makes too many groups, or amounts that differ
 */
export function inParts(query, suffix, name, most) {
  /** @type {Query} */
  const next = structuredClone(query);
  const group = next.groups.find((it) => it.suffix === suffix);
  const asked = Number(group?.amounts.find((it) => it.name === name)?.amount);
  const parts = Math.ceil(asked / most);
  if (!group || !(most > 0) || parts < 2 || parts > MOST_PARTS || asked % parts) return null;
  group.amounts = group.amounts.filter((it) => it.name !== name);
  const amount = String(asked / parts);
  // Conditions of the unsuffixed group may be met by other providers: they stay where they are.
  const conditions = suffix ? group.conditions : [];
  if (suffix) group.amounts.push({ name, amount });
  const base = suffix || `_${name}`;
  for (let part = suffix ? 2 : 1; part <= parts; part += 1) {
    next.groups.push({ ...emptyGroup(`${base}_${part}`), amounts: [{ name, amount }],
      conditions: structuredClone(conditions) });
  }
  next.groups = next.groups.filter((it) => it.amounts.length || it.conditions.length);
  next.policy = "isolate";
  return next;
}
