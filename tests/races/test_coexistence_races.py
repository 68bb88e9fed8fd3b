"""The OpenStack service and ours write to one database at the same moment (specification 06 section 13.1).

PLACEMENT_RACE_ROUNDS (default 2) multiplies the number of writes of each writer.
"""

import multiprocessing
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
from sqlalchemy import func, select

from placement.db import invariants, models
from placement.objects import coexistence
from tests.support.old_service import Conflict, OldService, Refused, new_uuid
from tests.support.racing import Arena, Client, arena

ROUNDS = int(os.environ.get("PLACEMENT_RACE_ROUNDS", "2"))
WRITES = 40 * ROUNDS
UNITS = 10
HOSTS = [f"11111111-1111-4111-8111-00000000000{number}" for number in range(3)]
OURS = 4


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three of our servers on a database that has hosts already, shared with the old service."""
    with arena(request.param) as made:
        old = OldService(url_of(made))
        for number, host in enumerate(HOSTS):
            old.create_provider(host, f"host-{number}")
            old.set_inventory(host, {"VCPU": {"total": UNITS}})
        old.dispose()
        coexistence.release(made.db)
        yield made


def url_of(place: Arena) -> str:
    """Return the URL for the old service, which keeps the isolation of the server."""
    url = place.db.engine.url
    if url.get_backend_name() in ("mysql", "mariadb"):
        url = url.set(drivername="mysql+pymysql", query={})
    return url.render_as_string(hide_password=False)


def write_as_the_old_service(url: str, seed: int) -> dict[str, int]:
    """Claim, swap, free and resize at random; return how often what was done."""
    old, draw, held = OldService(url), random.Random(seed), []
    done = {"claims": 0, "refused": 0, "conflicts": 0}
    for _ in range(WRITES):
        try:
            kind = draw.random()
            if held and kind < 0.35:
                old.release(held.pop(draw.randrange(len(held))))
            elif held and kind < 0.5:
                old.claim(draw.choice(held), {draw.choice(HOSTS): {"VCPU": draw.randint(1, 4)}})
            else:
                consumer = new_uuid()
                old.claim(consumer, {draw.choice(HOSTS): {"VCPU": draw.randint(1, 4)}})
                held.append(consumer)
                done["claims"] += 1
        except Refused:
            done["refused"] += 1
        except Conflict:
            done["conflicts"] += 1
    old.dispose()
    return done


def write_as_we_do(client: Client, seed: int) -> dict[int, int]:
    """Claim and free at random; return how many answers had which status."""
    draw, held = random.Random(seed), []
    statuses: dict[int, int] = {}
    for _ in range(WRITES):
        if held and draw.random() < 0.4:
            answer = client.send("DELETE", f"/allocations/{held.pop(draw.randrange(len(held)))}")
        else:
            consumer, host = new_uuid(), draw.choice(HOSTS)
            body = {
                "allocations": {host: {"resources": {"VCPU": draw.randint(1, 4)}}},
                "project_id": "ours",
                "user_id": "ours",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            answer = client.send("PUT", f"/allocations/{consumer}", body)
            if answer.status == 204:
                held.append(consumer)
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
    return statuses


def ledger(place: Arena) -> dict[str, int]:
    """Return what is allocated of each host in one committed state."""
    providers, allocations = models.resource_providers, models.allocations
    rows = place.db.read(
        lambda reader: reader.execute(
            select(providers.c.uuid, func.coalesce(func.sum(allocations.c.used), 0))
            .outerjoin(allocations, allocations.c.resource_provider_id == providers.c.id)
            .group_by(providers.c.uuid)
        ).all()
    )
    return {uuid: int(used) for uuid, used in rows}


def test_no_grant_is_too_much_while_both_write(place: Arena) -> None:
    """At every moment no host holds more than it has, and in the end all answers are the ledger's."""
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")
    over: list[dict[str, int]] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            used = ledger(place)
            if max(used.values()) > UNITS:
                over.append(used)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        # One old process: two of them may grant too much between themselves.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            theirs = pool.submit(write_as_the_old_service, url_of(place), seed)
            ours = place.race(
                [lambda client, n=n: write_as_we_do(client, seed + n) for n in range(1, OURS + 1)]
            )
            done = theirs.result(timeout=300)
    finally:
        stop.set()
        watcher.join()

    assert over == []
    assert done["claims"] > 0
    assert {status for statuses in ours for status in statuses} <= {204, 409}
    assert sum(statuses.get(204, 0) for statuses in ours) > 0
    used = ledger(place)
    for client in place.clients(3):
        for host in HOSTS:
            shown = client.send("GET", f"/resource_providers/{host}/usages").json["usages"]
            assert shown == {"VCPU": used[host]}
        for amount in range(1, UNITS + 1):
            found = client.send("GET", f"/allocation_candidates?resources=VCPU:{amount}")
            offered = {
                uuid for one in found.json["allocation_requests"] for uuid in one["allocations"]
            }
            assert offered == {host for host in HOSTS if used[host] + amount <= UNITS}
    coexistence.finish(place.db)
    assert invariants.violations(place.db) == []
