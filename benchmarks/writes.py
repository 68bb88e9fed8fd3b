"""The operations that write: claims, swaps, deletes, and the whole boot.

Only the boot looks into an answer: it takes one candidate, chosen at random, out of the bytes and
parses that one alone, so that the client does not pay for reading a megabyte.
"""

import json
import random
import re
import time
from collections.abc import Mapping

import orjson

from benchmarks.clients import Maker, Operation
from benchmarks.clouds import THREE, Cloud, Consumer, Provider, uuid_of
from benchmarks.connection import Answer, Connection
from benchmarks.loading import CONSUMERS_PER_REQUEST, consumer_body, create, hot_uuid
from benchmarks.target import Target, Unusable, expect

PAIRS_PER_CLIENT = 10
DELETES_PER_CLIENT = 300
HOT_UNITS = 1_000_000
BOOT = f"/allocation_candidates?{THREE}&limit=1000"

ALLOCATIONS = re.compile(rb'"allocations":\s*(?=\{)')


def _consumer(
    serial: tuple[object, ...], host: str, amounts: Mapping[str, int], key: str
) -> Consumer:
    project, user = uuid_of(key, "project", "claims"), uuid_of(key, "user", "claims")
    return Consumer(uuid_of(*serial), project, user, {host: amounts})


def _put(connection: Connection, target: Target, consumer: Consumer) -> Answer:
    body = consumer_body(target.version, consumer, None)
    return connection.exchange("PUT", f"/allocations/{consumer.uuid}", orjson.dumps(body))


def spread_claims(target: Target, cloud: Cloud) -> Maker:
    """Each claim: one new consumer on a host drawn at random."""
    salt = time.time_ns()

    def make(connection: Connection, client: int) -> Operation:
        draw = random.Random(f"{salt}/{client}")

        def claim(number: int) -> Answer:
            host = cloud.host_uuid(draw.randrange(cloud.hosts))
            consumer = _consumer((salt, client, number), host, cloud.claim, cloud.name)
            return _put(connection, target, consumer)

        return claim

    return make


def contended_claims(target: Target, cloud: Cloud) -> Maker:
    """Each claim: one new consumer on the same large host, made for this scenario."""
    salt = time.time_ns()
    hot = hot_uuid(cloud)
    _make_hot(target, cloud, hot)

    def make(connection: Connection, client: int) -> Operation:
        def claim(number: int) -> Answer:
            consumer = _consumer((salt, client, number), hot, cloud.claim, cloud.name)
            return _put(connection, target, consumer)

        return claim

    return make


def _make_hot(target: Target, cloud: Cloud, hot: str) -> None:
    held = {
        name: {"total": HOT_UNITS * amount, "max_unit": amount}
        for name, amount in cloud.claim.items()
    }
    with target.connect() as connection:
        found = connection.exchange("GET", f"/resource_providers/{hot}")
        if expect(found, 200, 404).status == 404:
            create(connection, Provider(hot, f"{cloud.name}-hot", held))


def swaps(target: Target, cloud: Cloud) -> Maker:
    """Two consumers exchange their hosts in one POST, with the generations they have."""
    salt = time.time_ns()

    def make(connection: Connection, client: int) -> Operation:
        draw = random.Random(f"{salt}/{client}")
        pairs = [
            [
                _consumer(
                    (salt, client, pair, side),
                    cloud.host_uuid(draw.randrange(cloud.hosts)),
                    cloud.claim,
                    cloud.name,
                )
                for side in range(2)
            ]
            for pair in range(PAIRS_PER_CLIENT)
        ]
        _post(connection, target, [one for pair in pairs for one in pair])

        def swap(number: int) -> Answer:
            turn, place = divmod(number, PAIRS_PER_CLIENT)
            left, right = pairs[place]
            pairs[place] = [
                Consumer(left.uuid, left.project, left.user, right.allocations),
                Consumer(right.uuid, right.project, right.user, left.allocations),
            ]
            body = {one.uuid: consumer_body(target.version, one, turn + 1) for one in pairs[place]}
            return connection.exchange("POST", "/allocations", orjson.dumps(body))

        return swap

    return make


def deletes(target: Target, cloud: Cloud) -> Maker:
    """Each operation deletes a consumer that was claimed before the clock started."""
    salt = time.time_ns()

    def make(connection: Connection, client: int) -> Operation:
        draw = random.Random(f"{salt}/{client}")
        mine = [
            _consumer(
                (salt, client, number),
                cloud.host_uuid(draw.randrange(cloud.hosts)),
                cloud.claim,
                cloud.name,
            )
            for number in range(min(DELETES_PER_CLIENT, 5 * cloud.hosts))
        ]
        for start in range(0, len(mine), CONSUMERS_PER_REQUEST):
            _post(connection, target, mine[start : start + CONSUMERS_PER_REQUEST])
        left = iter(mine)
        return lambda _number: connection.exchange("DELETE", f"/allocations/{next(left).uuid}")

    return make


def _post(connection: Connection, target: Target, consumers: list[Consumer]) -> None:
    body = {one.uuid: consumer_body(target.version, one, None) for one in consumers}
    expect(connection.exchange("POST", "/allocations", orjson.dumps(body)), 204)


def boots(target: Target, cloud: Cloud) -> Maker:
    """Ask for candidates, take one of them, claim it for a new consumer: one operation."""
    salt = time.time_ns()

    def make(connection: Connection, client: int) -> Operation:
        choice = Choice(random.Random(f"{salt}/{client}"))

        def boot(number: int) -> Answer:
            answer = connection.exchange("GET", BOOT)
            if answer.status != 200:
                return answer
            body = consumer_body(
                target.version, _consumer((salt, client, number), "", {}, cloud.name), None
            )
            body["allocations"] = choice.take(answer.body)
            path = f"/allocations/{uuid_of(salt, client, number)}"
            return connection.exchange("PUT", path, orjson.dumps(body))

        return boot

    return make


class Choice:
    """Takes a random candidate out of the bytes of an answer.

    Where the candidates lie in the answer is measured once, on the first one; answers to the same
    question have the same layout.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._span: tuple[int, int] | None = None
        self._decoder = json.JSONDecoder()

    def take(self, body: bytes | bytearray) -> dict[str, object]:
        """Return the allocations of one candidate.

        :raises Unusable: the answer has none.
        """
        if self._span is None:
            first = ALLOCATIONS.search(body)
            if first is None:
                raise Unusable("no candidate to boot on")
            self._span = first.start(), body.rfind(b'"allocations"')
        start, last = self._span
        found = ALLOCATIONS.search(body, self._draw.randint(start, max(start, last)))
        found = found or ALLOCATIONS.search(body)
        if found is None:
            raise Unusable("no candidate to boot on")
        # One candidate is far shorter than this.
        piece = bytes(body[found.end() : found.end() + 4096]).decode()
        return self._decoder.raw_decode(piece)[0]
