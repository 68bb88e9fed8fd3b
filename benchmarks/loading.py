"""Load a cloud over HTTP, with several clients and many consumers per request; and take it away."""

from collections.abc import Iterator

import orjson

from benchmarks import clients
from benchmarks.clients import UNTIL_DONE, Measurement, Operation
from benchmarks.clouds import Cloud, Consumer, Provider, uuid_of
from benchmarks.connection import Answer, Connection
from benchmarks.target import Target, Unusable, expect

LOADERS = 4
CONSUMERS_PER_REQUEST = 100


def consumer_body(
    target_version: tuple[int, int], consumer: Consumer, generation: int | None
) -> dict[str, object]:
    """Return one consumer as PUT and POST take it at the target's microversion."""
    body: dict[str, object] = {
        "allocations": {
            provider: {"resources": dict(amounts)}
            for provider, amounts in consumer.allocations.items()
        },
        "project_id": consumer.project,
        "user_id": consumer.user,
        "consumer_generation": generation,
    }
    if target_version >= (1, 38):
        body["consumer_type"] = "INSTANCE"
    return body


def create(connection: Connection, provider: Provider) -> Answer:
    """Create a provider with all that it has: one request, and one per kind of thing it has.

    :raises Unusable: a request was refused.
    """
    named = {"uuid": provider.uuid, "name": provider.name}
    if provider.parent:
        named["parent_provider_uuid"] = provider.parent
    answer = connection.exchange("POST", "/resource_providers", orjson.dumps(named))
    expect(answer, 200, 201)
    generation = 0
    parts = (
        ("inventories", dict(provider.inventories)),
        ("traits", list(provider.traits)),
        ("aggregates", list(provider.aggregates)),
    )
    for part, value in parts:
        if not value:
            continue
        body = {"resource_provider_generation": generation, part: value}
        path = f"/resource_providers/{provider.uuid}/{part}"
        answer = expect(connection.exchange("PUT", path, orjson.dumps(body)), 200)
        generation += 1
    return answer


def create_names(target: Target, cloud: Cloud) -> None:
    """Create the custom traits and classes the cloud uses."""
    traits, classes = cloud.names()
    with target.connect() as connection:
        for name in traits:
            expect(connection.exchange("PUT", f"/traits/{name}"), 201, 204)
        for name in classes:
            expect(connection.exchange("PUT", f"/resource_classes/{name}"), 201, 204)


def is_loaded(target: Target, cloud: Cloud) -> bool:
    """Say whether the last host of the cloud is there already."""
    path = f"/resource_providers/{cloud.host_uuid(cloud.hosts - 1)}"
    with target.connect() as connection:
        answer = connection.exchange("GET", path)
    return expect(answer, 200, 404).status == 200


def load_providers(target: Target, cloud: Cloud) -> Measurement:
    """Create every provider; an operation of the measurement is one provider, ready to use."""
    create_names(target, cloud)
    with target.connect() as connection:
        for provider in cloud.shared:
            create(connection, provider)
    loaders = min(LOADERS, cloud.hosts)

    def make(connection: Connection, client: int) -> Operation:
        mine = iter(
            provider
            for number in range(client, cloud.hosts, loaders)
            for provider in cloud.tree(number)
        )
        return lambda _number: create(connection, next(mine))

    return clients.run(target, make, clients=loaders, operations=UNTIL_DONE)


def load_consumers(target: Target, cloud: Cloud) -> Measurement:
    """Create every consumer; an operation is one POST of many, each with its allocations."""
    loaders = min(LOADERS, cloud.hosts)

    def make(connection: Connection, client: int) -> Operation:
        batches = _batches(cloud, client, loaders)

        def post(_number: int) -> Answer:
            body = {one.uuid: consumer_body(target.version, one, None) for one in next(batches)}
            return expect(connection.exchange("POST", "/allocations", orjson.dumps(body)), 204)

        return post

    return clients.run(target, make, clients=loaders, operations=UNTIL_DONE)


def _batches(cloud: Cloud, client: int, loaders: int) -> Iterator[list[Consumer]]:
    batch: list[Consumer] = []
    for number in range(client, cloud.hosts, loaders):
        batch += cloud.consumers_of(number)
        if len(batch) >= CONSUMERS_PER_REQUEST:
            yield batch
            batch = []
    if batch:
        yield batch


def unload(target: Target, cloud: Cloud) -> None:
    """Delete the cloud's providers again, children first, with whatever consumers they have.

    :raises Unusable: a provider cannot be deleted.
    """
    loaders = min(LOADERS, cloud.hosts)

    def make(connection: Connection, client: int) -> Operation:
        mine = iter(
            provider.uuid
            for number in range(client, cloud.hosts, loaders)
            for provider in reversed(cloud.tree(number))
        )
        return lambda _number: remove(connection, next(mine))

    outcome = clients.run(target, make, clients=loaders, operations=UNTIL_DONE, accepted=(204,))
    if outcome.failures:
        raise Unusable(f"could not delete all of {cloud.name}: {outcome.statuses}")
    with target.connect() as connection:
        for provider_uuid in (*(one.uuid for one in cloud.shared), hot_uuid(cloud)):
            remove(connection, provider_uuid)


def hot_uuid(cloud: Cloud) -> str:
    """Return the uuid of the host on which the contended claims of the cloud meet."""
    return uuid_of(cloud.name, "hot")


def remove(connection: Connection, provider_uuid: str) -> Answer:
    """Delete a provider after its consumers; the answer may be 404."""
    path = f"/resource_providers/{provider_uuid}"
    answer = connection.exchange("GET", f"{path}/allocations")
    consumers = orjson.loads(answer.body)["allocations"] if answer.status == 200 else {}
    emptied = {"allocations": {}, "project_id": "none", "user_id": "none"}
    for batch in _chunks(list(consumers), CONSUMERS_PER_REQUEST):
        body = orjson.dumps(dict.fromkeys(batch, emptied))
        # 1.27 is the newest microversion at which an empty set needs no consumer generation.
        expect(connection.exchange("POST", "/allocations", body, "1.27"), 204)
    return connection.exchange("DELETE", path)


def _chunks(items: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
