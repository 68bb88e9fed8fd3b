/**
 * The shapes of the API's answers that this page reads (specification 07).
 *
 * @typedef {object} Inventory
 * @property {number} total
 * @property {number} reserved
 * @property {number} min_unit
 * @property {number} max_unit
 * @property {number} step_size
 * @property {number} allocation_ratio
 * @property {number} used
 *
 * @typedef {object} Allocation what one consumer holds of one provider
 * @property {Record<string, number>} resources
 * @property {string} project
 * @property {string} user
 * @property {string} type
 * @property {number | null} generation
 * @property {string[]} [groups] that the consumer is a member of
 * @property {string} [held_until]
 *
 * @typedef {Pick<Allocation, "groups" | "held_until">} Claimed
 *
 * @typedef {object} ConsumerGroup
 * @property {string} name
 * @property {"apart" | "together"} rule
 * @property {"tree" | "aggregate"} level
 * @property {number} [at_most]
 * @property {{consumer_uuid: string}[]} members
 * @property {boolean} kept
 *
 * @typedef {object} Provider
 * @property {string} uuid
 * @property {string} name
 * @property {string | null} parent
 * @property {number} generation
 * @property {Record<string, Inventory>} inventories
 * @property {string[]} traits
 * @property {string[]} aggregates
 * @property {Record<string, Allocation>} [allocations]
 *
 * @typedef {object} Tree
 * @property {string} root
 * @property {string} etag
 * @property {Provider[]} providers
 *
 * @typedef {object} TreePage
 * @property {Tree[]} trees
 * @property {string | null} next
 *
 * @typedef {object} Count
 * @property {number} count
 * @property {boolean} complete
 *
 * @typedef {object} Demand
 * @property {string} parameter
 * @property {string} value
 *
 * @typedef {object} Relaxation
 * @property {Demand | Demand[]} drop
 * @property {Count} candidates
 *
 * @typedef {object} Largest
 * @property {string} group
 * @property {string} resource_class
 * @property {number} asked
 * @property {number | null} would_do
 *
 * @typedef {object} StepExample
 * @property {string} uuid
 * @property {string} name
 * @property {string} root
 * @property {number} [asked]
 * @property {number} [free]
 * @property {number | null} [total] null: the provider has no inventory of the class
 * @property {number | null} [reserved]
 * @property {number | null} [used]
 * @property {number} [allocation_ratio]
 * @property {number} [min_unit]
 * @property {number} [max_unit]
 * @property {number} [step_size]
 * @property {string[] | string} [missing]
 * @property {string[] | string} [present]
 * @property {string[]} [member_of]
 *
 * @typedef {object} Step
 * @property {string | null} group
 * @property {string} test
 * @property {string | null} [subject]
 * @property {"providers" | "trees"} unit
 * @property {number} before
 * @property {number} left
 * @property {StepExample[]} examples
 *
 * @typedef {object} Ended
 * @property {string} why
 * @property {string | null} group
 * @property {string | null} subject
 * @property {string} meaning
 *
 * @typedef {object} About
 * @property {string} verdict
 * @property {Count} candidates
 * @property {Relaxation[]} [relaxations]
 * @property {Largest[]} [largest]
 *
 * @typedef {object} Explanation
 * @property {Count} candidates
 * @property {Step[]} steps
 * @property {Ended | null} stopped what ended the search before combining
 * @property {Ended | null} [combining] what combining ended with
 * @property {Relaxation[]} [relaxations]
 * @property {Largest[]} [largest]
 * @property {About} [about]
 *
 * @typedef {object} Capacity
 * @property {number} count
 * @property {boolean} exact
 * @property {boolean} complete
 * @property {{uuid: string, name: string | null, count: number}[]} places
 * @property {Record<string, number>} limits
 * @property {Record<string, number>} stranded
 * @property {Record<string, number>} largest
 * @property {{trees: number, count: number}} avoided trees that take nothing new, and what of the count is there
 *
 * @typedef {object} Outcome one side of a what-if
 * @property {Count} candidates
 * @property {{count: number, exact: boolean, complete: boolean}} capacity
 * @property {Relaxation[]} [relaxations]
 *
 * @typedef {object} Homeless
 * @property {string} uuid
 * @property {string} type
 * @property {string} project
 * @property {Record<string, Record<string, number>>} allocations what it had, by provider
 * @property {string[]} [groups] whose rules alone keep it out
 *
 * @typedef {object} WhatIf
 * @property {Outcome} before
 * @property {Outcome} after
 * @property {Homeless[]} homeless
 * @property {boolean} complete all changes were tried
 *
 * @typedef {object} History of a shape
 * @property {{at: string, count: number}[]} records oldest first
 * @property {{records: number, per_day: number, runs_out_at: string | null} | null} forecast
 *
 * @typedef {object} WrittenState what a consumer held of a provider, or what a write has changed of a provider
 * @property {string} [project_id]
 * @property {Record<string, number>} [resources]
 * @property {string} [name]
 *
 * @typedef {object} Written by one request
 * @property {string} at
 * @property {{user_id: string | null, project_id: string | null}} by
 * @property {string | null} request_id
 * @property {string | null} global_request_id
 * @property {string | null} method
 * @property {string | null} route
 * @property {string | null} consumer_uuid
 * @property {string | null} provider_uuid
 * @property {string | null} name of that provider, as it is now
 * @property {WrittenState | null} before
 * @property {WrittenState | null} after
 *
 * @typedef {object} Lost a place whose failure leaves consumers homeless
 * @property {string} uuid
 * @property {string | null} name
 * @property {number} consumers
 * @property {number} homeless_count
 * @property {(Homeless & {stopped: Ended})[]} homeless
 *
 * @typedef {object} Survival
 * @property {number} places
 * @property {number} tried
 * @property {number} survivable
 * @property {boolean} complete
 * @property {number} avoided trees that take nothing new
 * @property {Lost[]} lost the worst
 *
 * @typedef {object} Move a step of a plan
 * @property {string} consumer_uuid
 * @property {string} project_id
 * @property {string} consumer_type
 * @property {Record<string, {resources: Record<string, number>}>} from by provider of one tree
 * @property {string} root_provider_uuid to which it moves
 *
 * @typedef {object} Plan
 * @property {Move[]} steps
 * @property {number} cost
 * @property {number} lower_bound
 * @property {boolean} minimal
 * @property {boolean} complete
 * @property {{root_provider_uuid: string}[]} [placed]
 * @property {string[]} [emptied]
 *
 * @typedef {object} NoPlan
 * @property {boolean} exact
 * @property {string[]} groups
 * @property {Homeless[]} [homeless]
 * @property {Explanation} [explanation]
 *
 * @typedef {object} CandidateRequest
 * @property {Record<string, {resources: Record<string, number>}>} allocations
 * @property {Record<string, string[]>} mappings
 *
 * @typedef {object} Candidates
 * @property {CandidateRequest[]} allocation_requests
 * @property {Record<string, {root_provider_uuid: string, parent_provider_uuid: string | null}>} provider_summaries
 */

export {};
