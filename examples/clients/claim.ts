// Claim a host with types that openapi-typescript generated from docs/openapi.json, and openapi-fetch.
// Usage: node claim.js URL TOKEN, compiled beside the generated placement_api.d.ts.

import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { paths } from "./placement_api.js";

const [url, token] = process.argv.slice(2);
const placement = createClient<paths>({ baseUrl: url, headers: { "X-Auth-Token": token } });
const header = { "OpenStack-API-Version": "placement 1.39" };

const found = await placement.GET("/allocation_candidates", {
  params: { header, query: { resources: "VCPU:2,MEMORY_MB:1024", limit: 1 } },
});
const owner = { project_id: "demo", user_id: "alice", consumer_type: "INSTANCE" };
const body = { ...found.data!.allocation_requests[0], ...owner, consumer_generation: null };
const path = { consumer_uuid: randomUUID() };
const claimed = await placement.PUT("/allocations/{consumer_uuid}", { params: { header, path }, body });
console.log(claimed.response.status);

const held = await placement.GET("/allocations/{consumer_uuid}", { params: { header, path } });
const places = Object.values(held.data!.allocations);
console.log(held.data!.consumer_generation, JSON.stringify(places.map((place) => place.resources)));

const again = await placement.PUT("/allocations/{consumer_uuid}", { params: { header, path }, body });
console.log(again.error!.errors[0].status, again.error!.errors[0].code);
