"""A server that loads the service once and forks it: uWSGI does, unless told otherwise, and tells nobody."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from placement.db import schema
from tests.operations.deploy import conversation
from tests.support import bodies, deployment
from tests.support.databases import KINDS, scratch_database
from tests.support.processes import wait_until
from tests.support.world import World, new_uuid

pytestmark = pytest.mark.deploy

WORKERS = 4
CLAIMS = 200


@pytest.mark.parametrize("kind", KINDS)
def test_workers_share_nothing_of_the_process_that_loaded_the_service(
    folder: Path, kind: str
) -> None:
    """Neither connections, over which each would get the other's answers, nor files of numbers."""
    options = f"[insight]\nenabled = true\npublic = metrics\nmetrics_directory = {folder}/metrics\n"
    with scratch_database(kind, schema.HEAD, named=True) as url:
        environment = deployment.prepare(folder, url, options)
        with deployment.uwsgi(
            folder, environment, http=True, processes=WORKERS, forks_loaded=True
        ) as site:
            wait_until("all workers are there", lambda: len(site.workers()) == WORKERS)
            host = World(site).host(VCPU=CLAIMS)

            def claim_and_read(consumer: str) -> tuple[int, list[str]]:
                body = bodies.entry({host: {"VCPU": 1}})
                status = site.send("PUT", f"/allocations/{consumer}", body).status
                held = site.send("GET", f"/allocations/{consumer}").json
                return status, list(held["allocations"])

            with ThreadPoolExecutor(16) as clients:
                seen = list(clients.map(claim_and_read, (new_uuid() for _ in range(CLAIMS))))

            assert seen == [(204, [host])] * CLAIMS
            assert conversation.counted_claims(site) == CLAIMS
            told = site.master.log.read_text()
            assert "Traceback" not in told, told[told.index("Traceback") :][:3000]
