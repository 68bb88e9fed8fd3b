"""Lists of providers are answered from memory; a brute force says what they show.

Random small clouds and queries, on every database, asked of the process that wrote and of one that did not.
PLACEMENT_PROPERTY_EXAMPLES (default 20 in CI, 7 by hand) says how many clouds are tried.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

import pytest
import webob
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support import world
from tests.support.databases import KINDS, require
from tests.support.effort import examples
from tests.support.service import Service, configure, database_url, empty, running

EXAMPLES = int(os.environ.get("PLACEMENT_PROPERTY_EXAMPLES", examples(20)))
TRAITS = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "STORAGE_DISK_SSD")
IDLE_TRAITS = ("HW_CPU_X86_SSE", "CUSTOM_IDLE")
AGGREGATES = tuple(f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in range(3))
CLASSES = ("VCPU", "DISK_GB", "CUSTOM_UNIT")
IDLE_CLASSES = ("VGPU", "CUSTOM_IDLE")
NAMES = ("a", "A", "a ", 'quo"te', "ü☃", "100%")
NOBODY = "bbbbbbbb-0000-4000-8000-000000000000"


def uuid_of(number: int) -> str:
    """Return the uuid of a provider; their order says nothing of their age."""
    return f"{7 * number % 10}0000000-0000-4000-8000-00000000000{number}"


@dataclass
class Provider:
    """What the writes of a test made of a provider."""

    name: str
    parent: int | None
    inventories: dict[str, dict[str, Any]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()

    def fits(self, name: str, amount: int) -> bool:
        """Specification 02 section 3.4.3, word for word."""
        held = self.inventories.get(name)
        if held is None:
            return False
        capacity = (held["total"] - held["reserved"]) * held["allocation_ratio"]
        return (
            self.used.get(name, 0) + amount <= capacity
            and held["min_unit"] <= amount <= held["max_unit"]
            and amount % held["step_size"] == 0
        )


PLAIN = {
    "total": 10,
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 10,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
odd_records = st.fixed_dictionaries(
    {
        "total": st.sampled_from([1, 5, 8, 10, 10, 2**31 - 1]),
        "reserved": st.sampled_from([0, 0, 0, 1]),
        "min_unit": st.sampled_from([1, 1, 1, 2]),
        "max_unit": st.sampled_from([4, 8, 2**31 - 1]),
        "step_size": st.sampled_from([1, 1, 1, 2, 3]),
        "allocation_ratio": st.sampled_from([0.3, 0.9, 1.0, 1.0, 1.1, 1.9, 16.0]),
    }
)
records = st.just(PLAIN) | odd_records
inventories = st.fixed_dictionaries(
    {"VCPU": records}, optional={"DISK_GB": records, "CUSTOM_UNIT": records}
)
trait_sets = st.frozensets(st.sampled_from(TRAITS))
aggregate_sets = st.frozensets(st.sampled_from(AGGREGATES))
worlds = st.lists(
    st.tuples(st.none() | st.integers(0, 5), inventories, trait_sets, aggregate_sets),
    min_size=3,
    max_size=6,
)

places = st.integers(0, 5)
changes = st.one_of(
    st.tuples(st.just("name"), places, st.sampled_from(NAMES)),
    st.tuples(st.just("inventories"), places, inventories),
    st.tuples(st.just("claim"), places, st.sampled_from(CLASSES)),
    st.tuples(st.just("traits"), places, trait_sets),
    st.tuples(st.just("aggregates"), places, aggregate_sets),
    st.tuples(st.just("delete"), places, st.none()),
)

trait_names = st.sampled_from(TRAITS * 6 + IDLE_TRAITS + ("CUSTOM_NO", "CUSTOM_NOT"))
class_names = st.sampled_from(
    ("VCPU",) * 12 + CLASSES * 4 + IDLE_CLASSES + ("CUSTOM_NO", "CUSTOM_NOT")
)
amounts = st.sampled_from([*[1] * 8, 2, 2, 3, 4, 5, 8, 9, 2**31, 10**20])
some_aggregates = st.frozensets(st.sampled_from((*AGGREGATES, NOBODY)), min_size=1, max_size=2)


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a version and what it can ask for."""
    minor = draw(st.sampled_from([4, 5, 6, 11, 14, 15, 18, 22, 24, 32, 39, 39, 39]))
    rare = st.sampled_from([False] * 5 + [True])
    some_traits = st.frozensets(trait_names, min_size=1, max_size=2)
    return {
        "minor": minor,
        "resources": draw(st.dictionaries(class_names, amounts, max_size=2)),
        "name": draw(st.sampled_from([*NAMES, ""])) if draw(rare) else None,
        "uuid": uuid_of(draw(places)) if draw(rare) else None,
        "in_tree": draw(places) if minor >= 14 and draw(rare) else None,
        "all_of": [draw(trait_names)] if minor >= 18 and draw(rare) else [],
        "any_of": draw(st.lists(some_traits, max_size=2)) if minor >= 39 and draw(rare) else [],
        "forbidden": draw(some_traits) if minor >= 22 and draw(rare) else (),
        "member_of": draw(st.lists(some_aggregates, max_size=1 + (minor >= 24)))
        if draw(rare)
        else [],
        "outside": draw(some_aggregates) if minor >= 32 and draw(rare) else (),
    }


def query_string(query: dict[str, Any]) -> str:
    """Return the query as a client writes it."""
    asked = [f"{name}:{amount}" for name, amount in query["resources"].items()]
    pairs = [("resources", ",".join(asked))] if asked else []
    pairs += [(key, query[key]) for key in ("name", "uuid") if query[key] is not None]
    if query["in_tree"] is not None:
        pairs.append(("in_tree", uuid_of(query["in_tree"])))
    plain = [*query["all_of"], *(f"!{name}" for name in sorted(query["forbidden"]))]
    pairs += [("required", ",".join(plain))] if plain else []
    pairs += [("required", "in:" + ",".join(sorted(names))) for names in query["any_of"]]
    pairs += [("member_of", "in:" + ",".join(sorted(uuids))) for uuids in query["member_of"]]
    if query["outside"]:
        pairs.append(("member_of", "!in:" + ",".join(sorted(query["outside"]))))
    return urlencode(pairs)


class Unknown(Exception):
    """The detail that a client gets."""


class World:
    """The providers as they should be, by number."""

    def __init__(self, service: Service) -> None:
        self._world = world.World(service)
        self.providers: dict[int, Provider] = {}

    def create(self, number: int, parent: int | None) -> None:
        """Create a provider, below another if that is there."""
        parent = parent if parent in self.providers else None
        above = None if parent is None else uuid_of(parent)
        self._world.provider(f"p{number}", above, key=uuid_of(number))
        self.providers[number] = Provider(f"p{number}", parent)

    def change(self, kind: str, number: int, value: Any) -> None:
        """Change a provider, if it is there and takes the change."""
        if number in self.providers:
            getattr(self, f"_{kind}")(number, self.providers[number], value)

    def _name(self, number: int, provider: Provider, name: str) -> None:
        if name not in {other.name for other in self.providers.values()}:
            self._world.call("PUT", f"/resource_providers/{uuid_of(number)}", {"name": name})
            provider.name = name

    def _inventories(self, number: int, provider: Provider, held: Any) -> None:
        if provider.used.keys() <= held.keys():
            self._world.replace(uuid_of(number), "inventories", held)
            provider.inventories = held

    def _traits(self, number: int, provider: Provider, names: frozenset[str]) -> None:
        self._world.replace(uuid_of(number), "traits", sorted(names))
        provider.traits = names

    def _aggregates(self, number: int, provider: Provider, uuids: frozenset[str]) -> None:
        # The old form, which moves no generation.
        path = f"/resource_providers/{uuid_of(number)}/aggregates"
        self._world.call("PUT", path, sorted(uuids), version="1.18")
        provider.aggregates = uuids

    def _claim(self, number: int, provider: Provider, name: str) -> None:
        amount = next((amount for amount in (3, 2, 1) if provider.fits(name, amount)), None)
        if amount is not None:
            consumer = f"cccccccc-0000-4000-8000-{self._claims():012}"
            self._world.claim({uuid_of(number): {name: amount}}, consumer)
            provider.used[name] = provider.used.get(name, 0) + amount

    def _claims(self) -> int:
        return sum(sum(provider.used.values()) for provider in self.providers.values())

    def _delete(self, number: int, provider: Provider, _: None) -> None:
        parents = {other.parent for other in self.providers.values()}
        if not provider.used and number not in parents:
            self._world.call("DELETE", f"/resource_providers/{uuid_of(number)}")
            del self.providers[number]

    def selected(self, query: dict[str, Any]) -> list[str]:
        """Return the uuids that the query selects, oldest first (specification 02 section 3.4.1)."""
        found = self._positive(query)
        for number in list(found):
            provider = self.providers[number]
            if (
                provider.traits & set(query["forbidden"])
                or provider.aggregates & set(query["outside"])
                or not all(provider.fits(*each) for each in query["resources"].items())
                or query["uuid"] not in (None, uuid_of(number))
                or query["name"] not in (None, "", provider.name)
            ):
                found.discard(number)
        return [uuid_of(number) for number in sorted(found)]

    def _positive(self, query: dict[str, Any]) -> set[int]:
        found, wanted = set(self.providers), query["in_tree"]
        if wanted is not None:
            found &= {n for n in found if self._root(n) == self._root(wanted)}
            if not found:
                return set()
        for names in [*([name] for name in query["all_of"]), *query["any_of"]]:
            _check_traits(names)
            having = {n for n, each in self.providers.items() if each.traits & set(names)}
            if not having:
                return set()
            found &= having
        _check_traits(query["forbidden"])
        for uuids in query["member_of"]:
            members = {n for n, each in self.providers.items() if each.aggregates & uuids}
            if not members:
                return set()
            found &= members
        for name in sorted(query["resources"]):
            if name not in CLASSES + IDLE_CLASSES:
                raise Unknown(f"in resources parameter: No such resource class {name}.")
        return found

    def _root(self, number: int) -> int | None:
        provider = self.providers.get(number)
        if provider is None:
            return None
        return number if provider.parent is None else self._root(provider.parent)


def _check_traits(names: Any) -> None:
    for name in sorted(names):
        if name not in TRAITS + IDLE_TRAITS:
            raise Unknown(f'in "required" parameter: No such trait(s): {name}.')


@pytest.fixture(scope="module", params=KINDS)
def processes(request: pytest.FixtureRequest) -> Iterator[tuple[Service, Service]]:
    """Two applications on one database, each with a picture of its own, as two processes have."""
    require(request.param)
    with running(request.param) as writer:
        other = Database(make_engine(database_url(request.param)))
        yield writer, Service(configure(request.param), other)
        other.dispose()


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    worlds, st.lists(st.tuples(st.lists(changes, max_size=2), queries()), min_size=4, max_size=10)
)
def test_lists_show_whom_the_specification_selects(
    processes: tuple[Service, Service], providers: list[Any], steps: list[Any]
) -> None:
    """In the order of creation, as each is shown alone; or which name is unknown."""
    writer, reader = processes
    empty(writer.db)
    for kind, name in (("traits", "CUSTOM_IDLE"), ("resource_classes", "CUSTOM_IDLE")):
        assert writer.request("PUT", f"/{kind}/{name}", version="1.39").status_int == 201
    assert writer.request("PUT", "/resource_classes/CUSTOM_UNIT", version="1.39").status_int == 201
    world = World(writer)
    for number, (parent, held, traits, aggregates) in enumerate(providers):
        world.create(number, parent)
        world.change("inventories", number, held)
        world.change("traits", number, traits)
        world.change("aggregates", number, aggregates)
    for made, query in steps:
        for change in made:
            world.change(*change)
        for service in (writer, reader):
            check(service, world, query)


def check(service: Service, world: World, query: dict[str, Any]) -> None:
    """Ask one process and compare."""
    version = f"1.{query['minor']}"
    path = f"/resource_providers?{query_string(query)}"
    answer = service.request("GET", path, version=version)
    try:
        selected = world.selected(query)
    except Unknown as unknown:
        assert answer.status_int == 400, answer.text
        assert str(unknown) in answer.json["errors"][0]["detail"]
        return
    assert answer.status_int == 200, answer.text
    alone = [
        service.request("GET", f"/resource_providers/{uuid}", version=version) for uuid in selected
    ]
    assert answer.json == {"resource_providers": [each.json for each in alone]}
    if selected and query["minor"] >= 15:
        assert last_modified(answer) == max(map(last_modified, alone))


def last_modified(answer: webob.Response) -> Any:
    """Return the time of the header."""
    return parsedate_to_datetime(answer.headers["Last-Modified"])
