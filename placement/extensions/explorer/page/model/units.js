/** Amounts as people say them. */

const SCALES = {
  binary: { base: 1024, units: ["MiB", "GiB", "TiB", "PiB", "EiB"] },
  bits: { base: 1000, units: ["kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s"] },
  packets: { base: 1000, units: ["k packets/s", "M packets/s", "G packets/s"] },
};

/** @type {Record<string, [string, string]>} class: [label, unit] */
const NAMES = {
  VCPU: ["Cores", "cores"],
  PCPU: ["Dedicated cores", "cores"],
  MEMORY_MB: ["Memory", ""],
  DISK_GB: ["Disk", ""],
  VGPU: ["Virtual GPUs", "vGPUs"],
  PGPU: ["GPUs", "GPUs"],
  FPGA: ["FPGAs", "FPGAs"],
  SRIOV_NET_VF: ["Network functions", "VFs"],
  PCI_DEVICE: ["PCI devices", "devices"],
  IPV4_ADDRESS: ["IPv4 addresses", "addresses"],
  NET_BW_EGR_KILOBIT_PER_SEC: ["Bandwidth out", ""],
  NET_BW_IGR_KILOBIT_PER_SEC: ["Bandwidth in", ""],
  NET_PACKET_RATE_KILOPACKET_PER_SEC: ["Packet rate", ""],
  NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC: ["Packet rate out", ""],
  NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC: ["Packet rate in", ""],
};
const ORDER = Object.keys(NAMES);
const whole = writer(() => new Intl.NumberFormat("en", { maximumFractionDigits: 0 }));
const small = writer(() => new Intl.NumberFormat("en", { maximumSignificantDigits: 2 }));
const tenth = writer(() => new Intl.NumberFormat("en", { maximumFractionDigits: 1 }));

/** "14:03:59", of milliseconds since 1970. */
export const timeOfDay = writer(() => new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }));

/** "26 Nov 2026, 14:03:59", of milliseconds since 1970. */
export const moment = writer(
  () => new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" }));

/**
 * Writes numbers by a format that is made for the first of them: the browser reads the tables of a language
 * for that, which would make the start of the page one long task.
 *
 * @param {() => {format: (value: number) => string}} make
 * @returns {(value: number) => string}
 */
function writer(make) {
  /** @type {ReturnType<typeof make> | undefined} */
  let format;
  return (value) => (format ??= make()).format(value);
}

/**
 * What people call a resource class: "Memory"; the class itself where it has no common name.
 *
 * @param {string} name
 */
export function label(name) {
  return NAMES[name]?.[0] ?? name;
}

/**
 * The scale of a class and the step on it at which the class counts.
 *
 * @param {string} name
 * @returns {{base: number, units: string[], first: number} | null}
 */
function scaleOf(name) {
  if (name.endsWith("_MB")) return { ...SCALES.binary, first: 0 };
  if (name.endsWith("_GB")) return { ...SCALES.binary, first: 1 };
  if (name.endsWith("_KILOBIT_PER_SEC")) return { ...SCALES.bits, first: 0 };
  if (name.endsWith("_KILOPACKET_PER_SEC")) return { ...SCALES.packets, first: 0 };
  return null;
}

/**
 * The unit in which amounts of a class are given in a request.
 *
 * @param {string} name
 */
export function requestUnit(name) {
  const scale = scaleOf(name);
  return scale ? scale.units[scale.first] : (NAMES[name]?.[1] ?? "");
}

/**
 * Write numbers of one class in one unit, that which suits the largest.
 *
 * @param {string} name resource class
 * @param {...number} values
 * @returns {{texts: string[], unit: string}}
 */
export function together(name, ...values) {
  const scale = scaleOf(name);
  if (!scale) {
    return { texts: values.map((value) => whole(value)), unit: NAMES[name]?.[1] ?? "" };
  }
  let [step, divisor] = [scale.first, 1];
  const shown = values.filter((value) => value > 0);
  const largest = Math.max(...shown);
  // A small amount beside a large one keeps its digits: 983 + 100 of 1,580 GiB.
  const readable = (/** @type {number} */ next) => largest >= next && Math.min(...shown) * 10 >= next;
  while (step < scale.units.length - 1 && readable(divisor * scale.base)) {
    divisor *= scale.base;
    step += 1;
  }
  return { texts: values.map((value) => short(value / divisor)), unit: scale.units[step] };
}

/** @param {number} value */
function short(value) {
  return Math.abs(value) < 1 ? small(value) : tenth(value);
}

/**
 * "12 cores", "252 GiB", "4".
 *
 * @param {string} name
 * @param {number} value
 */
export function amount(name, value) {
  const { texts, unit } = together(name, value);
  if (value === 1 && unit.endsWith("s") && !unit.includes("/")) {
    return `${texts[0]} ${unit.endsWith("sses") ? unit.slice(0, -2) : unit.slice(0, -1)}`;
  }
  return unit ? `${texts[0]} ${unit}` : texts[0];
}

/**
 * "4 vGPUs, 32 GiB memory": the amounts of a request or an allocation.
 *
 * @param {Record<string, number>} resources
 */
export function amounts(resources) {
  return sortClasses(Object.keys(resources))
    .map((name) => amountOf(name, resources[name]))
    .join(", ");
}

/**
 * An amount that says what it is of: "32 GiB memory", "12 cores", "3 CUSTOM_X".
 *
 * @param {string} name
 * @param {number} value
 */
export function amountOf(name, value) {
  const said = amount(name, value);
  if (NAMES[name]?.[1]) return name === "PCPU" ? said.replace(" core", " dedicated core") : said;
  return `${said} ${NAMES[name] ? label(name).toLowerCase() : name}`;
}

/** @param {number} value */
export function count(value) {
  return whole(value);
}

/**
 * @param {number} value
 * @param {string} one "tree"
 * @param {string} [many] "trees"
 */
export function counted(value, one, many = `${one}s`) {
  return `${whole(value)} ${value === 1 ? one : many}`;
}

/** @param {number} ratio */
export function percent(ratio) {
  if (!Number.isFinite(ratio)) return "no room";
  const value = ratio * 100;
  return value > 0 && value < 1 ? "<1 %" : `${whole(Math.floor(value + 1e-9))} %`;
}

/**
 * Cores, memory and disk first, as people list them; the rest by name.
 *
 * @param {string[]} names
 */
export function sortClasses(names) {
  const place = (/** @type {string} */ name) => {
    const at = ORDER.indexOf(name);
    return at < 0 ? ORDER.length : at;
  };
  return [...names].sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
}

/**
 * Sum amounts by class over providers.
 *
 * @param {Record<string, Record<string, number>>} byProvider
 */
export function total(byProvider) {
  /** @type {Record<string, number>} */
  const sums = {};
  for (const resources of Object.values(byProvider)) {
    for (const [name, value] of Object.entries(resources)) sums[name] = (sums[name] ?? 0) + value;
  }
  return sums;
}
