"""Builders of clouds and questions, and the engine's answer in the oracle's words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from oslo_config import cfg
from webob.multidict import MultiDict

from placement import conf
from placement.handlers import candidate_query
from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.records import CloudRows, ProviderRecord, UsedInventory
from placement.search.request import CandidateRequest, Group
from placement.web.microversion import Version
from tests.search.worlds import stock

PROVIDER = attrgetter(
    *("provider_id", "uuid", "revision", "parent_id", "root_id", "name", "generation", "modified")
)
EXAMPLES = json.loads((Path(__file__).parent / "data" / "examples.json").read_text())


Held = int | UsedInventory
Names = str | Iterable[str]


class World:
    """``World().host("a", VCPU=4).device("gpu0", parent="a", PGPU=1)``; ids count from 1."""

    def __init__(self) -> None:
        self.records: dict[str, ProviderRecord] = {}

    def host(
        self,
        name: str,
        traits: Iterable[str] = (),
        aggregates: Iterable[str] = (),
        **inventories: Held,
    ) -> World:
        """Add a root."""
        return self.add(name, None, traits, aggregates, inventories)

    def device(
        self,
        name: str,
        parent: str,
        traits: Iterable[str] = (),
        aggregates: Iterable[str] = (),
        **inventories: Held,
    ) -> World:
        """Add a child."""
        return self.add(name, parent, traits, aggregates, inventories)

    def pool(
        self,
        name: str,
        aggregates: Iterable[str],
        traits: Iterable[str] = (),
        **inventories: Held,
    ) -> World:
        """Add a sharing root."""
        traits = {*traits, "MISC_SHARES_VIA_AGGREGATE"}
        return self.add(name, None, traits, aggregates, inventories)

    def add(
        self,
        name: str,
        parent: str | None,
        traits: Iterable[str],
        aggregates: Iterable[str],
        inventories: Mapping[str, Held],
    ) -> World:
        """Add a provider; a number as inventory is its total."""
        number = len(self.records) + 1
        above = self.records[parent] if parent else None
        self.records[name] = ProviderRecord(
            provider_id=number,
            uuid=f"uuid-of-{name}",
            revision=1,
            parent_id=above.provider_id if above else None,
            root_id=above.root_id if above else number,
            inventories={
                c: i if isinstance(i, UsedInventory) else stock(i) for c, i in inventories.items()
            },
            traits=frozenset(traits),
            aggregates=frozenset(aggregates),
        )
        return self

    def cloud(self) -> Cloud:
        """Return the cloud of all providers."""
        return load(self.records.values())


def rows_of(records: Iterable[ProviderRecord]) -> CloudRows:
    """The same content as database rows."""
    records = list(records)
    classes = sorted({c for r in records for c in r.inventories})
    traits = sorted({t for r in records for t in r.traits})
    aggregates = sorted({a for r in records for a in r.aggregates})
    return CloudRows(
        [PROVIDER(r) for r in records],
        [
            (r.provider_id, classes.index(c), *i.record, i.used)
            for r in records
            for c, i in r.inventories.items()
        ],
        [(r.provider_id, traits.index(t)) for r in records for t in r.traits],
        [(r.provider_id, aggregates.index(a)) for r in records for a in r.aggregates],
        dict(enumerate(classes)),
        dict(enumerate(traits)),
        dict(enumerate(aggregates)),
    )


def load(records: Iterable[ProviderRecord]) -> Cloud:
    """Return the cloud of these providers."""
    return Cloud.load(rows_of(records))


def group(
    suffix: str = "",
    *,
    required: Iterable[Names] = (),
    in_tree: str | None = None,
    forbidden: Iterable[str] = (),
    member_of: Iterable[Names] = (),
    avoid: Iterable[str] = (),
    **amounts: int,
) -> Group:
    """A group; each item of ``required`` and ``member_of`` is a name or a set of names."""
    return Group(
        suffix,
        amounts,
        tuple(frozenset([r]) if isinstance(r, str) else frozenset(r) for r in required),
        frozenset(forbidden),
        tuple(frozenset([m]) if isinstance(m, str) else frozenset(m) for m in member_of),
        frozenset(avoid),
        in_tree,
    )


def ask(*groups: Group, **rules: Any) -> CandidateRequest:
    """Return the question for these groups in this order."""
    return CandidateRequest(tuple(groups), **rules)


def ids(cloud: Cloud, result: SearchResult) -> list[tuple[frozenset, frozenset]]:
    """The answer as the oracle puts it, one item per candidate, in order."""
    number = cloud.ids.tolist()
    return [
        (
            frozenset((number[p], c, n) for p, a in x.allocations.items() for c, n in a.items()),
            frozenset((s, frozenset(number[p] for p in ps)) for s, ps in x.mappings.items()),
        )
        for x in result
    ]


def summarised(cloud: Cloud, result: SearchResult, whole_trees: bool) -> set[int]:
    """Return the ids of the providers that the summaries show, each once."""
    trees = cloud.forest.trees(result.trees(cloud))[0]
    providers = cloud.ids[trees if whole_trees else result.find_summarised(cloud)].tolist()
    assert len(set(providers)) == len(providers)
    return set(providers)


def parse(query: str, version: tuple[int, int]) -> CandidateRequest:
    """Return the question that a query asks of a service with its defaults."""
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    return candidate_query.parse(
        MultiDict(parse_qsl(query)), Version(*version), options.placement
    )


def example_records(cloud: dict) -> list[ProviderRecord]:
    """The providers of one invented cloud of section 9."""
    number = {p["uuid"]: i for i, p in enumerate(cloud["providers"], 1)}
    parent = {p["uuid"]: p["parent"] for p in cloud["providers"]}

    def root(uuid: str) -> str:
        while parent[uuid]:
            uuid = parent[uuid]
        return uuid

    return [
        ProviderRecord(
            number[p["uuid"]],
            p["uuid"],
            1,
            number[p["parent"]] if p["parent"] else None,
            number[root(p["uuid"])],
            {c: stock(**i, used=p["used"].get(c, 0)) for c, i in p["inventories"].items()},
            frozenset(p["traits"]),
            frozenset(p["aggregates"]),
        )
        for p in cloud["providers"]
    ]
