"""The handlers of claims with chosen places: parse, ask once, render (specification 09)."""

from collections.abc import Mapping
from typing import Any

from webob import Response

from placement import errors
from placement.errors import MalformedRequest
from placement.extensions.claims import groups, holding, schemas, service
from placement.extensions.claims.orders import Claim, Order, Unplaced
from placement.handlers import candidate_query
from placement.handlers.avoided import read_avoid
from placement.handlers.explanation import read_relaxable, render_explanation
from placement.objects.allocation_candidate import UnknownNameInQuery
from placement.placing.remedies import RelaxableRequest
from placement.printable import show_time
from placement.schemas.questions import DEFAULT_EXAMPLES, NOTHING
from placement.search.group_rules import GroupRule
from placement.search.work import Work
from placement.web.microversion import MAXIMUM
from placement.web.request import Request
from placement.web.response import json_response
from placement.web.search_bounds import bound_reading, bound_search
from placement.web.validation import is_uuid_like, normalized_uuid

GROUPS = "/-/groups/"

BESIDE = {True: ", with those before it placed", False: ""}
"""The words of an error about other claims, by whether there are any."""

CERTAINTY = {
    (True, True): "They do not fit together.",
    (False, True): "There is none.",
    (True, False): "It is not certain that none exists.",
    (False, False): "It is not certain that none exists.",
}
"""The words by whether there are several claims, and whether the answer is exact."""


class MalformedClaims(errors.Malformed):
    """The claims contradict each other."""

    reasons = {
        "most": "too_many_claims",
        "twice": "repeated_consumer",
        "held": "consumer_not_new",
        "level": "invalid_group_rule",
        "at_most": "invalid_group_rule",
        "query": "invalid_query",
        "one_of": "invalid_query",
        "same": "repeated_query",
        "queries": "too_many_queries",
    }
    texts = {
        "most": "{count} claims were sent, and at most {most} are taken at once.",
        "twice": "Consumer {uuid} is named twice.",
        "held": "Consumer {uuid} exists, or may: only a new consumer, of generation null, can be held.",
        "level": 'The rule of the group {name} must have "of" for the level aggregate, and only for it.',
        "at_most": 'The rule of the group {name} has "at_most", which is for the rule apart.',
        "query": "The query of claim {number}: {detail}",
        "one_of": "Query {position} of claim {number}: {detail}",
        "same": "Queries {position} and {earlier} of claim {number} are the same.",
        "queries": "{count} different queries were sent, and at most {most} are taken at once.",
    }


def create_claims(request: Request) -> Response:
    """POST /-/claims"""
    request.read_query(NOTHING)
    with bound_reading(request) as reading:
        order = _read_order(request, request.read_json(schemas.CLAIMS), reading)
    try:
        with bound_search(request) as work:
            answer = service.place(
                request.db, request.picture, order, request.conf.insight.work_factor, work
            )
    except UnknownNameInQuery as refused:
        # The choice does not know which claim the unknown name belongs to, so the first claim with it is
        # named.
        name = refused.broken["field"]
        mentioned = (
            (number, position if claim.queries else None)
            for number, claim in enumerate(order.claims)
            for position, asked in enumerate(claim.options)
            if name in asked.request.names.traits | asked.request.names.classes
        )
        raise _number_error(*next(mentioned, (0, None)), refused) from None
    if isinstance(answer, Unplaced):
        are_several = len(order.claims) > 1
        raise service.NoCandidate(
            consumer=answer.claim.consumer_uuid,
            beside=BESIDE[are_several],
            certainty=CERTAINTY[are_several, answer.exact],
            document={
                "claim": {"number": answer.number, "consumer_uuid": answer.claim.consumer_uuid},
                "exact": answer.exact,
                "groups": sorted(answer.groups),
                "avoided": answer.avoided,
                **_render_explanations(answer),
            },
        )
    claims = [
        grant._asdict()
        | {"allocations": {uuid: {"resources": held} for uuid, held in grant.allocations.items()}}
        for grant in answer.grants
    ]
    document: dict[str, Any] = {"claims": claims}
    if order.has_alternatives:
        positions = answer.positions or [0] * len(claims)
        for claim, granted, position in zip(order.claims, claims, positions, strict=True):
            if claim.queries:
                granted["chosen"] = position
        document["exact"] = answer.exact
    if answer.expires_at is not None:
        document["hold"] = {"expires_at": show_time(answer.expires_at)}
    return json_response(request, document)


def _render_explanations(refused: Unplaced) -> dict[str, Any]:
    """Return the explanation of the query, or of the first of several queries and of its alternatives."""
    explained = zip(refused.explanations, refused.claim.options, strict=True)
    first, *others = [
        render_explanation(why, asked.request, DEFAULT_EXAMPLES) for why, asked in explained
    ]
    return {"explanation": first} | ({"alternatives": others} if refused.claim.queries else {})


def confirm_claims(request: Request) -> Response:
    """POST /-/claims/confirm"""
    request.read_query(NOTHING)
    consumers: dict[str, int | None] = {}
    for given in request.read_json(schemas.CONFIRM)["consumers"]:
        uuid = normalized_uuid(given["consumer_uuid"])
        if uuid in consumers:
            raise MalformedClaims.for_rule("twice", uuid=uuid)
        consumers[uuid] = int(given["consumer_generation"])
    return _render_generations(request, holding.confirm(request.db, consumers))


def confirm_claim(request: Request) -> Response:
    """POST /-/claims/{consumer_uuid}/confirm, for any generation of the consumer"""
    request.read_query(NOTHING)
    given = request.path_args["consumer_uuid"]
    if not is_uuid_like(given):
        raise MalformedRequest.for_rule("consumer", given=given)
    return _render_generations(request, holding.confirm(request.db, {normalized_uuid(given): None}))


def _render_generations(request: Request, generations: Mapping[str, int]) -> Response:
    consumers = [
        {"consumer_uuid": uuid, "consumer_generation": generation}
        for uuid, generation in generations.items()
    ]
    return json_response(request, {"consumers": consumers})


def show_group(request: Request) -> Response:
    """GET /-/groups/{name}"""
    request.read_query(NOTHING)
    group = groups.show_group(request.db, _read_group_name(request))
    rule: dict[str, Any] = {"rule": group.rule.rule, "level": group.rule.level}
    if group.rule.rule == "apart":
        rule["at_most"] = group.rule.at_most
    if group.rule.of:
        rule["of"] = group.rule.of
    members = [member._asdict() for member in group.members]
    document = {"name": group.name, **rule, "members": members, "kept": group.kept}
    return json_response(request, document)


def list_holds(request: Request) -> Response:
    """GET /-/holds"""
    given = request.read_query_once(schemas.HOLDS)
    limit = int(given.get("limit", schemas.DEFAULT_LIMIT))
    marker = given.get("marker")
    found = holding.list_holds(
        request.db,
        limit + 1,
        project=given.get("project_id"),
        group=given.get("group"),
        after=None if marker is None else normalized_uuid(marker),
    )
    shown = [
        {
            "consumer_uuid": hold.consumer_uuid,
            "consumer_generation": hold.generation,
            "consumer_type": hold.type,
            "project_id": hold.project,
            "user_id": hold.user,
            "expires_at": show_time(hold.expires_at),
            "expired": hold.has_expired,
        }
        for hold in found[:limit]
    ]
    following = shown[-1]["consumer_uuid"] if len(found) > limit else None
    return json_response(request, {"holds": shown, "next": following})


def _read_group_name(request: Request) -> str:
    """Return the name of a group as it was sent; route variables replace non-ASCII characters by ``?``."""
    given = str(request.environ["PATH_INFO"]).removeprefix(GROUPS)
    try:
        name = given.encode("latin-1").decode()
    except UnicodeError:
        # wsgi-intercept, in a client inside the process, has already decoded the path.
        name = given
    if "\0" in name:
        raise groups.GroupNotFound(name=request.path_args["name"])
    return name


# -- what is asked -------------------------------------------------------------------------------


def _read_order(request: Request, body: Mapping[str, Any], reading: Work) -> Order:
    given, hold_s = body["claims"], body.get("hold_s")
    most = request.conf.insight.claims_most
    if len(given) > most:
        raise MalformedClaims.for_rule("most", count=len(given), most=most)
    different = {text for each in given for text in each.get("queries", ())}
    if len(different) > most:
        raise MalformedClaims.for_rule("queries", count=len(different), most=most)
    # Equal queries become one object: such claims are interchangeable.
    queries: dict[str, RelaxableRequest] = {}
    avoid = read_avoid(request, body)
    claims = [
        _read_claim(request, number, each, queries, avoid, reading)
        for number, each in enumerate(given)
    ]
    seen: set[str] = set()
    for claim in claims:
        if claim.consumer_uuid in seen:
            raise MalformedClaims.for_rule("twice", uuid=claim.consumer_uuid)
        seen.add(claim.consumer_uuid)
        if hold_s is not None and claim.generation is not None:
            raise MalformedClaims.for_rule("held", uuid=claim.consumer_uuid)
    rules = {name: _read_rule(name, rule, reading) for name, rule in body.get("groups", {}).items()}
    return Order(
        claims, rules, body.get("strategy", "any"), None if hold_s is None else int(hold_s), avoid
    )


def _read_claim(
    request: Request,
    number: int,
    given: Mapping[str, Any],
    queries: dict[str, RelaxableRequest],
    avoid: frozenset[str],
    reading: Work,
) -> Claim:
    generation = given["consumer_generation"]
    texts = given["queries"] if "queries" in given else [given["query"]]
    for position, text in enumerate(texts):
        if text in texts[:position]:
            earlier = texts.index(text)
            raise MalformedClaims.for_rule(
                "same", number=number, position=position, earlier=earlier
            )
        if text not in queries:
            # The first query does not count: a request with one query is read like a search, which has no
            # such bound.
            if queries:
                reading.go_on()
            try:
                query = candidate_query.check(request, schemas.CANDIDATES, text)
                queries[text] = read_relaxable(query, MAXIMUM, request.conf.placement, avoid)
            except errors.BadRequest as refused:
                named = position if "queries" in given else None
                raise _number_error(number, named, refused) from None
    return Claim(
        normalized_uuid(given["consumer_uuid"]),
        None if generation is None else int(generation),
        given["project_id"],
        given["user_id"],
        given["consumer_type"],
        texts[0],
        queries[texts[0]],
        tuple(given.get("groups", ())),
        tuple(queries[text] for text in given.get("queries", ())),
    )


def _number_error(number: int, position: int | None, refused: errors.BadRequest) -> MalformedClaims:
    """Return the error of a query with the number of its claim, and its own number among several."""
    if position is None:
        return MalformedClaims.told_by(refused, "query", number=number)
    return MalformedClaims.told_by(refused, "one_of", number=number, position=position)


def _read_rule(name: str, given: Mapping[str, Any], reading: Work) -> GroupRule:
    domains, is_apart = given.get("of", ()), given["rule"] == "apart"
    if (given.get("level", "tree") == "aggregate") != bool(domains):
        raise MalformedClaims.for_rule("level", name=name)
    if "at_most" in given and not is_apart:
        raise MalformedClaims.for_rule("at_most", name=name)
    if domains:
        reading.go_on()
    # The uuids are sorted, because the rule is stored sorted and compared with the stored one.
    uuids = tuple(sorted(set(map(normalized_uuid, domains))))
    return GroupRule(given["rule"], int(given.get("at_most", 1)), uuids)
