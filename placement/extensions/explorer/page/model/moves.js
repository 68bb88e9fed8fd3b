/** The steps of a plan as arrows between hosts. */

/** @typedef {import("./types.js").Move} Move */
/** @typedef {{name: string, uuid: string}} Host */
/** @typedef {{from: number, to: number}} Arrow numbers of hosts */

/**
 * Who goes from where to where. Hosts are in the order in which a step first leads to them or from them; those of the
 * goal, at which the steps aim, are first.
 *
 * @param {Move[]} steps
 * @param {Map<string, import("./types.js").Tree>} trees by the uuid of each provider
 * @param {string[]} goals uuids of hosts
 * @returns {{hosts: Host[], arrows: Arrow[]}}
 */
export function arrowsOf(steps, trees, goals) {
  /** @type {Map<string, number>} */
  const places = new Map();
  /** @type {Host[]} */
  const hosts = [];
  const place = (/** @type {string} */ provider) => {
    const root = trees.get(provider)?.providers[0] ?? { uuid: provider, name: provider };
    const known = places.get(root.uuid);
    if (known !== undefined) return known;
    places.set(root.uuid, hosts.length);
    return hosts.push({ name: root.name, uuid: root.uuid }) - 1;
  };
  goals.forEach(place);
  const arrows = steps.map((step) => ({ from: place(Object.keys(step.from)[0]), to: place(step.root_provider_uuid) }));
  return { hosts, arrows };
}
