"""Claims decided here as scenes (specification 09): each kind of write alone; pairs and triples together."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.proofs.promise.scenes import (
    ANN,
    BOB,
    CHILD,
    EMPTY_HOST,
    FREE,
    FULL,
    HELD,
    HOLDER,
    HOST,
    NEW,
    OTHER,
    RED,
    TRAIT,
    Scene,
    adopt,
    aggregates,
    claim,
    delete,
    many,
    provider,
    release,
    reshape,
    stock,
    traits,
)
from tests.proofs.promise.stage import Order
from tests.support.bodies import entry


def gang(
    *consumers: str,
    query: str | Mapping[str, str] | Sequence[str],
    hold_s: int | None = None,
    generation: int | None = None,
    **rules: Any,
) -> Order:
    """Let the service choose for consumers, all members of the groups that have rules here.

    :param query: of all of them, or by consumer; a sequence has several of each, in order of preference.
    :param rules: by group, the word of its rule, or all that a body says of it.
    """
    queries = query if isinstance(query, Mapping) else dict.fromkeys(consumers, query)
    claims = [
        {
            "consumer_uuid": consumer,
            "consumer_generation": generation,
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
            "query" if isinstance(queries[consumer], str) else "queries": queries[consumer],
            "groups": [*rules],
        }
        for consumer in consumers
    ]
    groups = {
        name: {"rule": rule} if isinstance(rule, str) else rule for name, rule in rules.items()
    }
    hold = {} if hold_s is None else {"hold_s": hold_s}
    return Order("POST", "/-/claims", {"claims": claims, "groups": groups, **hold})


def confirm(*consumers: str) -> Order:
    """Keep what consumers hold, which were claimed once."""
    held = [{"consumer_uuid": uuid, "consumer_generation": 1} for uuid in consumers]
    return Order("POST", "/-/claims/confirm", {"consumers": held})


def confirm_one(consumer: str) -> Order:
    """Keep what a consumer holds, of whatever generation it is."""
    return Order("POST", f"/-/claims/{consumer}/confirm")


def ask(path: str) -> Order:
    """Ask a question."""
    return Order("GET", path)


ONE = "resources=VCPU:1"
TWO = "resources=VCPU:2"
TWO_EACH = {"rule": "apart", "at_most": 2}
HERE, THERE = f"{TWO}&in_tree={HOST}", f"{TWO}&in_tree={OTHER}"
EITHER = (HERE, THERE)
APIECE = {ANN: HERE, BOB: THERE}
TWO_FREE = (*FREE, provider(OTHER), stock(OTHER, 0, VCPU=4))
FIRST_FULL = (*TWO_FREE, claim(HOLDER, VCPU=4))
IN_THE_WAY = (*TWO_FREE, claim(HOLDER, VCPU=2), claim(BOB, VCPU=1))
MEMBER = (*TWO_FREE, gang(HOLDER, query=HERE, g="apart"))
ENDED = (*FREE, gang(HOLDER, query=TWO, old="apart"), release(HOLDER))
ALL_HELD = (*FREE, gang(HOLDER, query="resources=VCPU:4", hold_s=900))
BOTH_HELD = (*FREE, gang(HOLDER, BOB, query=TWO, hold_s=900))
HELD_IN_GROUP = (*TWO_FREE, gang(HOLDER, query=HERE, hold_s=900, g="apart"))
EMPTY_OTHER = (*FREE, provider(OTHER))
BELOW = (
    *EMPTY_HOST,
    TRAIT,
    traits(0, "CUSTOM_A"),
    provider(CHILD, HOST),
    stock(CHILD, 0, VCPU=4),
)


def plan(hold_s: int) -> Order:
    """Hold the destinations of what must move so that the first host is empty."""
    return Order("POST", "/-/plans", {"goal": {"empty": {"trees": [HOST]}}, "hold_s": hold_s})


WHAT_IF = Order("POST", "/-/what-if", {"query": TWO, "changes": [{"drain": HOST}]})
LOOKS = {
    "a search": ask(f"/allocation_candidates?{TWO}"),
    "a list of providers": ask("/resource_providers?resources=VCPU:2"),
    "capacity": ask(f"/-/capacity?{TWO}"),
    "an explanation": ask(f"/-/explain?{TWO}"),
    "survival": ask("/-/survival"),
    "a list of trees": ask(f"/-/trees?{TWO}"),
    "changes": ask("/-/changes"),
    "what-if": WHAT_IF,
    "a plan": Order("POST", "/-/plans", {"goal": {"place": TWO}}),
}
"""Questions about room: holds that are over go first."""

REQUESTS_OF_CLAIMS = (
    *(
        Scene(name, before, (order,))
        for name, before, order in (
            ("claim decided here", FREE, gang(ANN, query=TWO)),
            ("gang", FREE, gang(ANN, BOB, query=TWO)),
            ("gang on two hosts", TWO_FREE, gang(ANN, BOB, query=APIECE)),
            ("claim by a second query", FIRST_FULL, gang(ANN, query=EITHER)),
            ("gang below a trait", BELOW, gang(ANN, BOB, query=f"{TWO}&root_required=CUSTOM_A")),
            ("gang too large", FREE, gang(ANN, BOB, NEW, query=TWO)),
            (
                "gang that begins groups",
                TWO_FREE,
                gang(ANN, BOB, query=APIECE, g="apart", h="apart"),
            ),
            ("gang after the end of a group", ENDED, gang(ANN, query=TWO, g="apart")),
            ("gang that begins a group again", ENDED, gang(ANN, query=TWO, old="together")),
            ("join a group", MEMBER, gang(ANN, query=TWO, g="apart")),
            ("join a full group", MEMBER, gang(ANN, BOB, query=TWO, g="apart")),
            ("join by another rule", MEMBER, gang(ANN, query=TWO, g="together")),
            ("leave a group", MEMBER, gang(HOLDER, query=HERE, generation=1)),
            ("change groups", MEMBER, gang(HOLDER, query=THERE, generation=1, h="apart")),
            ("hold", FREE, gang(ANN, BOB, query=TWO, hold_s=900)),
            ("hold in a group", MEMBER, gang(ANN, query=TWO, hold_s=900, g="apart")),
            ("held plan", IN_THE_WAY, plan(900)),
            ("replace by a claim", HELD, gang(HOLDER, query="resources=VCPU:4", generation=1)),
            ("replace by a claim too late", HELD, gang(HOLDER, query=TWO, generation=7)),
            ("claim what exists as new", HELD, gang(HOLDER, query=TWO)),
            ("confirm", ALL_HELD, confirm(HOLDER)),
            ("confirm several", BOTH_HELD, confirm(HOLDER, BOB)),
            ("confirm one", ALL_HELD, confirm_one(HOLDER)),
            ("confirm again", (*ALL_HELD, confirm(HOLDER)), confirm(HOLDER)),
            ("confirm what is not held", HELD, confirm(HOLDER)),
            ("release what is held", ALL_HELD, release(HOLDER)),
            ("replace what is held", ALL_HELD, claim(HOLDER, generation=1, VCPU=3)),
        )
    ),
    *(
        Scene(name, before, (order,), 0, over=True)
        for name, before, order in (
            ("confirm late", ALL_HELD, confirm(HOLDER)),
            ("confirm one late", ALL_HELD, confirm_one(HOLDER)),
            ("gang too large past a hold", ALL_HELD, gang(ANN, BOB, NEW, query=TWO)),
        )
    ),
    *(
        Scene(name, before, (order,), 1, over=True)
        for name, before, order in (
            ("gang past a hold", ALL_HELD, gang(ANN, BOB, query=TWO)),
            ("gang past two holds", BOTH_HELD, gang(ANN, NEW, query=TWO)),
            ("gang of what was held", ALL_HELD, gang(HOLDER, query=TWO)),
            ("begin a group again past a hold", HELD_IN_GROUP, gang(ANN, query=HERE, g="together")),
            ("claim past a hold", ALL_HELD, claim(ANN, VCPU=4)),
            ("claim of what was held", ALL_HELD, claim(HOLDER, VCPU=4)),
            ("claims of many past a hold", ALL_HELD, many({ANN: entry({HOST: {"VCPU": 4}})})),
            ("replace inventories past a hold", ALL_HELD, stock(HOST, 2, MEMORY_MB=1)),
            ("delete inventory past a hold", ALL_HELD, delete(HOST, "/inventories/VCPU")),
            ("delete provider past a hold", ALL_HELD, delete(HOST)),
            ("reshape past a hold", (*ALL_HELD, provider(CHILD, HOST)), reshape(2, 0)),
            ("join a group past a hold", HELD_IN_GROUP, gang(ANN, BOB, query=APIECE, g="apart")),
            (
                "held plan past a hold",
                (*BOTH_HELD, *TWO_FREE[len(FREE) :], confirm(BOB)),
                plan(900),
            ),
            *((f"{name} past a hold", ALL_HELD, order) for name, order in LOOKS.items()),
        )
    ),
    *(
        Scene(name, before, (order,), unseen=unseen)
        for name, before, unseen, order in (
            ("claim on an old picture", FREE, (), gang(ANN, query=TWO)),
            ("gang on an old picture", FREE, (), gang(ANN, BOB, query=TWO)),
            (
                "claim overtaken on an old picture",
                EMPTY_OTHER,
                (claim(HOLDER, VCPU=4), stock(OTHER, 0, VCPU=4)),
                gang(ANN, query=TWO),
            ),
            (
                "gang overtaken on an old picture",
                EMPTY_OTHER,
                (claim(HOLDER, VCPU=3), stock(OTHER, 0, VCPU=4)),
                gang(ANN, BOB, query=TWO),
            ),
            (
                "claim refused on an old picture",
                FREE,
                (claim(HOLDER, VCPU=4),),
                gang(ANN, query=TWO),
            ),
        )
    ),
    Scene("claim for a bare record", HELD, (gang(ANN, query=TWO),), bare=ANN),
    Scene("hold for a bare record", HELD, (gang(ANN, query=TWO, hold_s=900),), bare=ANN),
)
"""Every kind of claim decided here, confirmation and expiry, and some that are refused."""

AT_ONCE = (
    Scene(
        "claims at once",
        (*EMPTY_HOST, stock(HOST, 0, VCPU=6)),
        tuple(gang(each, query=TWO) for each in (ANN, BOB, NEW)),
    ),
    Scene(
        "claims at once on an old picture",
        (*EMPTY_HOST, stock(HOST, 0, VCPU=6)),
        tuple(gang(each, query=TWO) for each in (ANN, BOB, NEW)),
        unseen=(),
    ),
)
"""Claims that arrive at one process while it places another, and share a transaction."""

PAIRS_OF_CLAIMS = (
    Scene("gang-gang", FREE, (gang(ANN, BOB, query=TWO), gang(HOLDER, NEW, query=TWO)), 1),
    Scene("gang-claim", FREE, (gang(ANN, BOB, query=TWO), claim(HOLDER, VCPU=1)), 1),
    Scene("gang-room", FREE, (gang(ANN, query=TWO), claim(HOLDER, VCPU=2)), 2),
    Scene("gang-release", FULL, (gang(ANN, query=TWO), release(HOLDER))),
    # What is claimed as new has all the room itself, until it is released.
    Scene("new-release", FULL, (gang(HOLDER, query=TWO), release(HOLDER))),
    Scene("gang-shrink", FREE, (gang(ANN, BOB, query=TWO), stock(HOST, 1, VCPU=3)), 1),
    Scene("either-either", TWO_FREE, (gang(ANN, BOB, query=EITHER), gang(NEW, query=EITHER)), 2),
    # What is released is room for the query that is liked best.
    Scene("either-release", FIRST_FULL, (gang(ANN, query=EITHER), release(HOLDER)), 2),
    # Both want the other host: for what is there already, and for what is new.
    Scene("plan-gang", IN_THE_WAY, (plan(900), gang(ANN, query=f"{TWO}&in_tree={OTHER}")), 1),
    Scene("plan-shrink", IN_THE_WAY, (plan(900), stock(OTHER, 1, VCPU=2)), 1),
    Scene("gang-same", FREE, (gang(ANN, query=TWO), gang(ANN, query=TWO)), 1),
    Scene(
        "gang-trait",
        (*FREE, TRAIT, traits(1, "CUSTOM_A")),
        (gang(ANN, query=f"{TWO}&required=CUSTOM_A"), traits(2)),
        1,
    ),
    # Nothing is allocated of the provider with the trait: neither lock nor generation sees it.
    Scene(
        "gang-trait-above",
        BELOW,
        (gang(ANN, query=f"{TWO}&root_required=CUSTOM_A"), traits(1)),
    ),
    Scene(
        "gang-tree",
        (*BELOW, provider(OTHER)),
        (
            gang(ANN, query=f"{TWO}&in_tree={HOST}"),
            adopt(CHILD, None),
        ),
    ),
    Scene(
        "gang-aggregate",
        (*FREE, aggregates(1, RED)),
        (gang(ANN, query=f"{TWO}&member_of={RED}"), aggregates(2)),
        1,
    ),
    Scene(
        "apart-apart", FREE, (gang(ANN, query=TWO, g="apart"), gang(BOB, query=TWO, g="apart")), 1
    ),
    Scene(
        "apart-apart-old",
        (*FREE, gang(HOLDER, query=TWO, g="apart"), provider(OTHER), stock(OTHER, 0, VCPU=4)),
        (gang(ANN, query=TWO, g="apart"), gang(BOB, query=TWO, g="apart")),
        1,
    ),
    # Both join the host of an older member, and there is only place for one more.
    Scene(
        "two-apart",
        (*FREE, gang(HOLDER, query=ONE, g=TWO_EACH)),
        (gang(ANN, query=ONE, g=TWO_EACH), gang(BOB, query=ONE, g=TWO_EACH)),
        1,
    ),
    Scene(
        "apart-together",
        FREE,
        (gang(ANN, query=TWO, g="apart"), gang(BOB, query=TWO, g="together")),
    ),
    Scene(
        "two-groups",
        FREE,
        (
            gang(ANN, query=TWO, g="apart", h="together"),
            gang(BOB, query=TWO, h="together", g="apart"),
        ),
        1,
    ),
    Scene(
        "apart-release",
        (*FREE, gang(HOLDER, query=TWO, g="apart")),
        (gang(ANN, query=TWO, g="apart"), release(HOLDER)),
    ),
    # The first begins a group, and removes the one that has ended, which the other claims for.
    Scene(
        "begin-ended",
        (*FREE, gang(HOLDER, query=TWO, g="apart"), release(HOLDER)),
        (gang(ANN, query=TWO, h="apart"), gang(BOB, query=TWO, g="together")),
        2,
    ),
    Scene(
        "begin-release",
        (*FREE, gang(HOLDER, query=TWO, g="apart")),
        (gang(ANN, query=TWO, h="apart"), release(HOLDER)),
        2,
    ),
    Scene("confirm-confirm", ALL_HELD, (confirm(HOLDER), confirm(HOLDER)), 1),
    Scene("confirm-claim", ALL_HELD, (confirm(HOLDER), claim(HOLDER, generation=1, VCPU=3)), 1),
    Scene("confirm-release", ALL_HELD, (confirm(HOLDER), release(HOLDER))),
    Scene("confirm-gang", ALL_HELD, (confirm(HOLDER), gang(ANN, query=TWO)), 1),
    Scene("confirm-gang-over", ALL_HELD, (confirm(HOLDER), gang(ANN, query=TWO)), 1, over=True),
    Scene("gang-gang-over", ALL_HELD, (gang(ANN, query=TWO), gang(BOB, query=TWO)), 2, over=True),
    Scene(
        "claim-gang-over",
        ALL_HELD,
        (claim(HOLDER, generation=1, VCPU=3), gang(ANN, query=TWO)),
        1,
        over=True,
    ),
    Scene("release-gang-over", ALL_HELD, (release(HOLDER), gang(ANN, query=TWO)), over=True),
    Scene(
        "leave-join",
        (*FREE, gang(HOLDER, query=TWO, g="apart")),
        (gang(HOLDER, query=TWO, generation=1), gang(ANN, query=TWO, g="apart")),
    ),
    Scene(
        "replace-by-claim-release",
        HELD,
        (gang(HOLDER, query="resources=VCPU:4", generation=1), release(HOLDER)),
    ),
    Scene(
        "replace-gang",
        HELD,
        (gang(HOLDER, query="resources=VCPU:4", generation=1), gang(ANN, query=TWO)),
        1,
    ),
    Scene(
        "confirm-one-gang-over", ALL_HELD, (confirm_one(HOLDER), gang(ANN, query=TWO)), 1, over=True
    ),
    Scene("search-search-over", ALL_HELD, (LOOKS["a search"], LOOKS["a search"]), 2, over=True),
    Scene("search-gang-over", ALL_HELD, (LOOKS["a search"], gang(ANN, query=TWO)), 2, over=True),
    Scene("search-confirm-over", ALL_HELD, (LOOKS["a search"], confirm(HOLDER)), 1, over=True),
    Scene("search-release-over", ALL_HELD, (LOOKS["a search"], release(HOLDER)), over=True),
    Scene("bare-bare", HELD, (gang(ANN, query=TWO), gang(ANN, query=TWO)), 1, bare=ANN),
)

TRIPLES_OF_CLAIMS = (
    Scene(
        "gang-apart-release",
        (*FREE, gang(HOLDER, query=TWO, g="apart")),
        (gang(ANN, query=TWO, g="apart"), gang(BOB, query=TWO, g="apart"), release(HOLDER)),
    ),
    Scene(
        "gang-confirm-claim-over",
        ALL_HELD,
        (
            gang(ANN, BOB, query=TWO),
            confirm(HOLDER),
            claim(HOLDER, generation=1, VCPU=4),
        ),
        1,
        over=True,
    ),
    Scene(
        "gangs-trait",
        BELOW,
        (
            gang(ANN, query=f"{TWO}&root_required=CUSTOM_A"),
            gang(BOB, query=f"{TWO}&root_required=CUSTOM_A"),
            traits(1),
        ),
    ),
)
