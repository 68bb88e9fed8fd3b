"""What a worker imports of the packages that the service requires: what docs/howto/install.rst says.

The rest is for the commands and clients, and costs a worker neither time nor memory.
"""

import json
import sys

from packaging.utils import canonicalize_name

from tests.docs.test_supported import requirements_table
from tests.support.processes import ran
from tests.support.programs import of_start
from tests.support.setup_file import required

WORKS = """
import json, sys
from importlib import metadata
from placement.wsgi.api import application
import webob

def send(method, path, body=None):
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    more = {} if body is None else {"json_body": body, "content_type": "application/json"}
    request = webob.Request.blank(path, method=method, headers=headers, **more)
    answer = request.get_response(application)
    assert answer.status_int in expected, answer.text
    return answer.json if answer.body else None

expected = (200, 204)
host = send("POST", "/resource_providers", {"name": "a"})
path = f"/resource_providers/{host['uuid']}/inventories"
send("PUT", path, {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}})
found = send("GET", "/allocation_candidates?resources=VCPU:1")
allocations = found["allocation_requests"][0]["allocations"]
claim = {"project_id": "p", "user_id": "u", "consumer_type": "T", "consumer_generation": None}
consumer = "/allocations/2fa85f64-5717-4562-b3fc-2c963f66afa6"
send("PUT", consumer, {"allocations": allocations, **claim})
expected = (400,)
send("PUT", consumer, {"allocations": 1, **claim})
loaded = {name.partition(".")[0] for name in sys.modules}
owners = metadata.packages_distributions()
print("LOADED", json.dumps(sorted({owner for name in loaded for owner in owners.get(name, ())})))
"""


def test_a_worker_imports_what_the_table_says(synced: str, environment: dict[str, str]) -> None:
    """After its start, a search, a claim and a wrong one, with nothing enabled that is not by default."""
    result = ran([sys.executable, "-c", WORKS], env=of_start(environment, synced))

    assert "LOADED" in result.stdout, result.stderr
    [line] = [line for line in result.stdout.splitlines() if line.startswith("LOADED")]
    loaded = {canonicalize_name(name) for name in json.loads(line.removeprefix("LOADED"))}
    said = {canonicalize_name(row[0]): row[-1] for row in requirements_table()}
    # It takes as long to load as the rest of the service.
    assert "scipy" not in loaded
    required_always = {canonicalize_name(each.name) for each in required()}
    assert required_always & loaded == {
        name for name in required_always if said[name] == "a worker"
    }


def test_a_worker_that_makes_plans_imports_the_solver_when_it_starts(
    synced: str, environment: dict[str, str]
) -> None:
    """Not within the deadline of the first plan."""
    started = "import sys, placement.wsgi.api; print('SOLVER', 'scipy' in sys.modules)"
    for enabled in ("true", "false"):
        given = of_start(environment, synced) | {"OS_INSIGHT__ENABLED": enabled}
        result = ran([sys.executable, "-c", started], env=given)
        assert f"SOLVER {enabled == 'true'}" in result.stdout, result.stderr
