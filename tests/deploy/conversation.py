"""What every deployment must get right, and a load that notices a lost request."""

import threading
import uuid
from typing import Any, Self

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.support.deployment import Site

HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


def call(site: Site, method: str, path: str, json: Any = None, **headers: str) -> requests.Response:
    """Send one request on a connection of its own."""
    return requests.request(
        method, site.url + path, json=json, headers={**HEADERS, **headers}, timeout=30
    )


def create_provider(site: Site, name: str, **inventory: int) -> dict[str, Any]:
    """Make a provider with inventories; return its document."""
    made: dict[str, Any] = call(site, "POST", "/resource_providers", {"name": name}).json()
    if inventory:
        body = {
            "resource_provider_generation": 0,
            "inventories": {name: {"total": total} for name, total in inventory.items()},
        }
        path = f"/resource_providers/{made['uuid']}/inventories"
        assert call(site, "PUT", path, body).status_code == 200
    return made


def claim(site: Site, provider: str, consumer: str) -> requests.Response:
    """Claim one VCPU for a new consumer."""
    body = {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "LOAD",
    }
    return call(site, "PUT", f"/allocations/{consumer}", body)


def check(site: Site) -> None:
    """Talk to a deployment: root, links, names with odd characters, long queries, errors."""
    check_root(site)
    check_links(site)
    check_names(site)
    check_errors(site)


def check_root(site: Site) -> None:
    """Discovery needs no token, with and without a slash at the end."""
    for path in ("", "/"):
        answer = requests.get(site.url + path, timeout=30)
        assert answer.status_code == 200
        assert answer.json()["versions"][0]["max_version"] == "1.39"


def check_links(site: Site) -> None:
    """Links carry the prefix; the location is absolute and leads to the provider."""
    answer = call(site, "POST", "/resource_providers", {"name": "linked"})
    made = answer.json()
    path = f"{site.prefix}/resource_providers/{made['uuid']}"
    links = {link["rel"]: link["href"] for link in made["links"]}
    assert links["self"] == path
    assert links["inventories"] == f"{path}/inventories"
    assert answer.headers["location"] == f"{site.url}/resource_providers/{made['uuid']}"
    assert requests.get(answer.headers["location"], headers=HEADERS, timeout=30).json() == made


def check_names(site: Site) -> None:
    """Spaces, slashes, percent signs and letters of any script come through unharmed."""
    name = "räck 7/slot+%2F&ünit=東"
    create_provider(site, name)
    found = requests.get(
        f"{site.url}/resource_providers", params={"name": name}, headers=HEADERS, timeout=30
    ).json()["resource_providers"]
    assert [provider["name"] for provider in found] == [name]
    long = "in:" + ",".join(str(uuid.uuid4()) for _ in range(190))
    assert call(site, "GET", f"/resource_providers?member_of={long}").status_code == 200
    assert call(site, "GET", "/resource_classes/VCPU%2FX").status_code == 404


def check_errors(site: Site) -> None:
    """Errors are the service's documents, not the web server's."""
    unknown = call(site, "GET", f"/resource_providers/{uuid.uuid4()}")
    assert unknown.status_code == 404
    assert unknown.json()["errors"][0]["request_id"] == unknown.headers["x-openstack-request-id"]
    assert call(site, "GET", "/nothing/here").json()["errors"][0]["status"] == 404
    assert requests.get(f"{site.url}/resource_providers", timeout=30).status_code == 401
    assert call(site, "DELETE", "/resource_providers").status_code == 405


def counted_claims(site: Site) -> int:
    """Ask whichever process answers how many claims all of them have granted."""
    answer = requests.get(f"{site.url}/-/metrics", timeout=30)
    assert answer.status_code == 200, answer.text
    wanted = {"method": "PUT", "route": "/allocations/{consumer_uuid}", "status": "204"}
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == "placement_request_seconds_count" and sample.labels == wanted
    )


class Load:
    """Threads that read and claim without pause, each request on a new connection."""

    def __init__(self, site: Site, threads: int = 4) -> None:
        self.site = site
        self.provider: str = create_provider(site, f"loaded-{uuid.uuid4()}", VCPU=10**6)["uuid"]
        self.claimed = 0
        self._counted = counted_claims(site)
        self.failures: list[str] = []
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                read = call(self.site, "GET", f"/resource_providers/{self.provider}/usages")
                written = claim(self.site, self.provider, str(uuid.uuid4()))
            except requests.RequestException as error:
                self.failures.append(repr(error))
                continue
            for answer, wanted in ((read, 200), (written, 204)):
                if answer.status_code != wanted:
                    self.failures.append(f"{answer.status_code} {answer.text}")
            with self._lock:
                self.claimed += written.status_code == 204

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """No request failed, what was acknowledged is what is there, and the metrics say so too."""
        assert not self.failures, self.failures[:5]
        usages = call(self.site, "GET", f"/resource_providers/{self.provider}/usages").json()
        assert usages["usages"] == {"VCPU": self.claimed}
        assert counted_claims(self.site) - self._counted == self.claimed
