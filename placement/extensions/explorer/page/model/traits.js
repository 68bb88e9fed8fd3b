/** Standard traits that say more of a provider than what hardware it has. */

export const SHARING = "MISC_SHARES_VIA_AGGREGATE";

/** Of the root of a host that takes no new servers: its compute service is disabled or down. */
export const OUT_OF_SERVICE = "COMPUTE_STATUS_DISABLED";
