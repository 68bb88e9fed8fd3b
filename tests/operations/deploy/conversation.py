"""What every deployment must get right, and a load that notices a lost request."""

from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import quote, urlencode

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.support import bodies
from tests.support.bodies import Sets
from tests.support.book import Book
from tests.support.client import VERSION, Answer, headers
from tests.support.deployment import Site
from tests.support.effort import drawn_by_run
from tests.support.load import Actor, Caller, acting
from tests.support.processes import ENDS_S
from tests.support.world import World, new_uuid

GROUPS = ("räck 7/slot+%2F&ünit?", "/", "/lead", "tail/", "a/b", "a//b", "a\nb", "a\n")
"""Names of groups, as many as one claim can have."""


def check(site: Site, merges_slashes: bool = False) -> None:
    """Talk to a deployment: root, links, names with odd characters, long queries, errors.

    :param merges_slashes: the server cannot pass on a path with a doubled slash, and answers 404.
    """
    check_root(site)
    check_links(site)
    check_names(site)
    check_groups(site, merges_slashes)
    check_doubled_slashes(site)
    check_errors(site)


def check_root(site: Site) -> None:
    """Discovery needs no token, with and without a slash at the end."""
    for path in ("", "/"):
        answer = requests.get(site.url + path, timeout=ENDS_S)
        assert answer.status_code == 200
        assert answer.json()["versions"][0]["max_version"] == "1.39"


def check_links(site: Site) -> None:
    """Links carry the prefix; the location is absolute and leads to the provider."""
    answer = site.send("POST", "/resource_providers", {"name": "linked"})
    made = answer.json
    path = f"{site.prefix}/resource_providers/{made['uuid']}"
    links = {link["rel"]: link["href"] for link in made["links"]}
    assert links["self"] == path
    assert links["inventories"] == f"{path}/inventories"
    assert answer.headers["location"] == f"{site.url}/resource_providers/{made['uuid']}"
    assert requests.get(answer.headers["location"], headers=headers(), timeout=ENDS_S).json() == made


def check_names(site: Site) -> None:
    """Spaces, slashes, percent signs and letters of any script come through unharmed."""
    name = "räck 7/slot+%2F&ünit=東"
    World(site).provider(name)
    found = site.send("GET", "/resource_providers?" + urlencode({"name": name})).json
    assert [provider["name"] for provider in found["resource_providers"]] == [name]
    long = "in:" + ",".join(new_uuid() for _ in range(190))
    assert site.send("GET", f"/resource_providers?member_of={long}").status == 200
    assert site.send("GET", "/resource_classes/VCPU%2FX").status == 404


def check_groups(site: Site, merges_slashes: bool) -> None:
    """A group is found by its name, with the slashes as they are and encoded."""
    host = World(site).host(VCPU=1)
    member = {
        "consumer_uuid": new_uuid(),
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
        "project_id": "project",
        "user_id": "user",
        "query": f"resources=VCPU:1&in_tree={host}",
        "groups": GROUPS,
    }
    rules = {name: {"rule": "apart", "level": "tree"} for name in GROUPS}
    World(site).call("POST", "/-/claims", {"claims": [member], "groups": rules})
    for name in GROUPS:
        for safe in ("", "/"):
            answer = site.send("GET", f"/-/groups/{quote(name, safe=safe)}")
            if merges_slashes and "//" in f"/{name}":
                assert answer.status == 404, name
            else:
                assert (answer.status, answer.json["name"]) == (200, name)


def check_doubled_slashes(site: Site) -> None:
    """A doubled slash is not a slash, but right below the prefix, where an endpoint may end with one."""
    host = World(site).host()
    assert site.send("GET", f"/resource_providers//{host}").status == 404
    if site.prefix:
        assert site.send("GET", f"//resource_providers/{host}").status == 200


def check_errors(site: Site) -> None:
    """Errors are the service's documents, not the web server's."""
    unknown = site.send("GET", f"/resource_providers/{new_uuid()}")
    assert unknown.status == 404
    assert unknown.json["errors"][0]["request_id"] == unknown.headers["x-openstack-request-id"]
    assert site.send("GET", "/nothing/here").json["errors"][0]["status"] == 404
    assert requests.get(f"{site.url}/resource_providers", timeout=ENDS_S).status_code == 401
    assert site.send("DELETE", "/resource_providers").status == 405


def counted_claims(site: Site) -> int:
    """Ask whichever process answers how many claims all of them have granted."""
    answer = requests.get(f"{site.url}/-/metrics", timeout=ENDS_S)
    assert answer.status_code == 200, answer.text
    wanted = {"method": "PUT", "route": "/allocations/{consumer_uuid}", "status": "204"}
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == "placement_request_seconds_count" and sample.labels == wanted
    )


CLIENTS, REST_S = 4, 0.01
DRAW = drawn_by_run(__name__)
"""One source for all loads: two on one site do not make the same consumers."""


class _Strict(Caller):
    """A way to a site where no request may fail."""

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        answer = super().send(method, path, body, version)
        if answer.status not in (200, 204):
            self._book.blame(f"{method} {path}: {answer}")
        return answer


class _Client(Actor):
    """Reads, claims and gives back, and rests: else it takes the processors from what is reloaded."""

    def __init__(self, *given: Any, hosts: Sequence[str]) -> None:
        super().__init__(*given)
        self._hosts = hosts
        self.held: dict[str, Sets] = {}

    def act(self) -> None:
        self.stopping.wait(REST_S)
        self.caller.send("GET", f"/resource_providers/{self._hosts[0]}/usages")
        if self.held and self.random.random() < 0.3:
            self._put(self.random.choice([*self.held]), {}, 1)
        else:
            self._put(self.new_uuid(), {host: {"VCPU": self.random.randint(1, 3)} for host in self._hosts})

    def _put(self, consumer: str, sets: Sets, generation: int | None = None) -> None:
        self.caller.send("PUT", f"/allocations/{consumer}", bodies.entry(sets, generation))
        self.held[consumer] = sets
        if not sets:
            del self.held[consumer]


class Load:
    """Clients that read, claim and give back; every request must succeed."""

    def __init__(self, site: Site) -> None:
        self._site, self.book = site, Book()
        world, seed = World(site), str(DRAW.randrange(2**31))
        self._hosts = [world.host(VCPU=10**6) for _ in range(2)]
        caller = _Strict([site], self.book)
        given = caller, self.book, seed
        self._clients = [_Client(f"client {n}", *given, hosts=self._hosts) for n in range(CLIENTS)]
        self._counted = counted_claims(site)
        self._acting = acting(self._clients)

    def __enter__(self) -> Self:
        self._acting.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self._acting.__exit__(*given)

    @property
    def claimed(self) -> int:
        """How many claims were granted."""
        return self.book.counts["PUT 204"]

    @property
    def failures(self) -> list[str]:
        """What did not succeed."""
        return self.book.violations

    def check_shown(self) -> None:
        """No request failed, what was acknowledged is what is there, and the metrics say so too."""
        assert not self.failures, self.failures[:5]
        sets = [held for each in self._clients for held in each.held.values()]
        for host in self._hosts:
            used = sum(held[host]["VCPU"] for held in sets)
            assert World(self._site).usages(host) == {"VCPU": used}
        assert counted_claims(self._site) - self._counted == self.claimed
