"""Load the cloud of cloud.yaml over HTTP, boot consumers on it, and print who uses what.

Run it against a started service::

    .venv/bin/python examples/boot_cloud.py

Every boot is what a compute service does: ask for allocation candidates, claim the first one, and
take the next if the claim is refused. If all are refused it asks again, because the answer was old:
others were faster, or the host was reshaped. Running it again loads nothing twice and boots more
consumers.
"""

import argparse
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
from prettytable import PrettyTable
from ruamel.yaml import YAML

ASKS = 3
CONSIDERED = 50
NAMESPACE = uuid.UUID("5b1f4d5a-7d43-4a73-9c4e-0d2f6c8a1e10")
PROJECTS = [f"project-{letter}" for letter in "abc"]


class Placement:
    """The few requests that this example makes, at the newest microversion."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self.session = requests.Session()
        self.session.headers.update(
            {
                "X-Auth-Token": token,
                "OpenStack-API-Version": "placement 1.39",
                "Accept": "application/json",
            }
        )

    def call(self, method: str, path: str, *fine: int, **more: Any) -> requests.Response:
        """Send a request; stop the program at an answer that is neither 2xx nor among ``fine``."""
        try:
            answer = self.session.request(method, self.url + path, timeout=60, **more)
        except requests.RequestException as error:
            sys.exit(f"No service answers at {self.url} ({error}).\nStart one, or give its --url.")
        if answer.status_code >= 300 and answer.status_code not in fine:
            sys.exit(f"{method} {path}: {answer.status_code}\n{answer.text}")
        return answer


def check(placement: Placement) -> None:
    """Stop the program unless the URL is the root of a Placement service."""
    answer = placement.call("GET", "/", 401, 403, 404)
    if answer.status_code != 200 or "versions" not in answer.text:
        sys.exit(
            f"{placement.url}/ is not the root of a Placement service (it answers"
            f" {answer.status_code}). Give the right --url, as in the service catalogue."
        )


def provider_uuid(name: str) -> str:
    """Return the same UUID for the same name, so that loading twice changes nothing."""
    return str(uuid.uuid5(NAMESPACE, name))


def describe(cloud: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every provider, parents first: name, parent, inventories, traits, aggregates."""
    for rack, hosts in cloud["racks"].items():
        for kind, count in hosts.items():
            if kind == "trait":
                continue
            for number in range(count):
                host = dict(cloud["kinds"][kind])
                host["traits"] = [*host["traits"], hosts["trait"]]
                yield from flatten(f"{rack}-{kind}-{number:02}", None, host, [f"rack-{rack}"])
    for name, pool in cloud["shares"].items():
        yield {
            "name": name,
            "parent": None,
            "inventories": pool["inventories"],
            "traits": ["MISC_SHARES_VIA_AGGREGATE"],
            "aggregates": [f"rack-{rack}" for rack in pool["racks"]],
        }


def flatten(
    name: str, parent: str | None, provider: dict[str, Any], aggregates: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield a provider of a kind and then its children."""
    yield {
        "name": name,
        "parent": parent,
        "inventories": provider.get("inventories", {}),
        "traits": provider.get("traits", []),
        "aggregates": aggregates,
    }
    for child, body in provider.get("children", {}).items():
        for number in range(body["count"]):
            yield from flatten(f"{name}-{child}{number}", name, body, [])


def load(placement: Placement, cloud: dict[str, Any]) -> int:
    """Create what is not there yet; return the number of providers created."""
    known = {
        provider["uuid"]
        for provider in placement.call("GET", "/resource_providers").json()["resource_providers"]
    }
    for trait in cloud["custom_traits"]:
        placement.call("PUT", f"/traits/{trait}")
    created = 0
    for provider in describe(cloud):
        key = provider_uuid(provider["name"])
        if key in known:
            continue
        body = {"name": provider["name"], "uuid": key}
        if provider["parent"]:
            body["parent_provider_uuid"] = provider_uuid(provider["parent"])
        placement.call("POST", "/resource_providers", json=body)
        fill(placement, key, provider)
        created += 1
    return created


def fill(placement: Placement, key: str, provider: dict[str, Any]) -> None:
    """Write the properties of a provider, each under the generation the last answer showed."""
    generation = 0
    for part in ("inventories", "traits", "aggregates"):
        value = provider[part]
        if part == "aggregates":
            value = [provider_uuid(aggregate) for aggregate in value]
        if value:
            answer = placement.call(
                "PUT",
                f"/resource_providers/{key}/{part}",
                json={part: value, "resource_provider_generation": generation},
            )
            generation = answer.json()["resource_provider_generation"]


def boot(placement: Placement, query: dict[str, str], choice: random.Random) -> bool:
    """Claim a candidate for a new consumer; return whether one was free."""
    for _ in range(ASKS):
        # With a limit, as compute services send it, each answer is of other hosts: one seed would
        # make other clouds.
        found = placement.call("GET", "/allocation_candidates", params=query).json()
        candidates = found["allocation_requests"][:CONSIDERED]
        if not candidates:
            return False
        if claim_one(placement, candidates, choice):
            return True
    return False


def claim_one(placement: Placement, candidates: list[Any], choice: random.Random) -> bool:
    """Claim the first candidate, in random order, that is not refused."""
    choice.shuffle(candidates)
    for candidate in candidates:
        claim = {
            **candidate,
            "project_id": choice.choice(PROJECTS),
            "user_id": "example",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        answer = placement.call("PUT", f"/allocations/{uuid.uuid4()}", 409, json=claim)
        if answer.status_code == 204:
            return True
    return False


def usage_table(placement: Placement) -> PrettyTable:
    """Return what each project uses."""
    table = PrettyTable(["project", "consumers", "VCPU", "MEMORY_MB", "DISK_GB", "VF", "VGPU"])
    table.align = "r"
    table.align["project"] = "l"
    for project in PROJECTS:
        usages = placement.call("GET", "/usages", params={"project_id": project}).json()["usages"]
        of_type = usages.get("INSTANCE", {})
        columns = ("consumer_count", "VCPU", "MEMORY_MB", "DISK_GB", "SRIOV_NET_VF", "VGPU")
        table.add_row([project, *(of_type.get(column, 0) for column in columns)])
    return table


def main() -> None:
    """Load, boot, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8778", help="endpoint (%(default)s)")
    parser.add_argument("--token", default="admin", help="X-Auth-Token (%(default)s)")
    parser.add_argument("--consumers", type=int, default=300, help="how many to boot (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices (%(default)s)")
    parser.add_argument("--once", action="store_true", help="boot nothing if all was loaded before")
    options = parser.parse_args()
    cloud = YAML(typ="safe").load(Path(__file__).with_name("cloud.yaml"))
    placement = Placement(options.url, options.token)

    check(placement)
    started = time.monotonic()
    created = load(placement, cloud)
    print(f"loaded {created} providers in {time.monotonic() - started:.1f} s")
    if options.once and not created:
        return

    choice = random.Random(options.seed)
    flavors = cloud["flavors"]
    weights = [flavor["weight"] for flavor in flavors.values()]
    booted: Counter[str] = Counter()
    started = time.monotonic()
    for _ in range(options.consumers):
        name = choice.choices(list(flavors), weights)[0]
        done = boot(placement, flavors[name]["query"], choice)
        booted[name if done else f"{name} (no candidate)"] += 1
    print(f"booted in {time.monotonic() - started:.1f} s: ", end="")
    print(", ".join(f"{count} {name}" for name, count in sorted(booted.items())))
    print(usage_table(placement))


if __name__ == "__main__":
    main()
