"""The questions that enumerate a cloud: every GET about every object.

Both sides list the objects, so an object that only one side has is a difference like any other. Each question
is asked at the microversions at which its answer changes shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from placement.client.comparison.question import ComparedQuestion, QuestionKind, path

NEWEST = "1.39"

PROVIDER_LIST_VERSIONS = ("1.0", "1.1", "1.6", "1.11", "1.14", NEWEST)
PROVIDER_VERSIONS = {
    "": ("1.0", "1.1", "1.6", "1.11", "1.14", NEWEST),
    "/inventories": ("1.0", NEWEST),
    "/usages": ("1.0", NEWEST),
    "/aggregates": ("1.1", "1.19", NEWEST),
    "/traits": ("1.6", NEWEST),
    "/allocations": ("1.0", NEWEST),
}
FIRST = (
    (ComparedQuestion(QuestionKind.ROOT, "/", NEWEST), "versions"),
    (
        ComparedQuestion(QuestionKind.PROVIDER_LISTS, "/resource_providers", NEWEST),
        "resource_providers",
    ),
)
"""The first questions to each side before anything is compared, with the member that its answer has."""

_FIGURES = ("total", "reserved", "min_unit", "max_unit", "step_size")
"""The figures of an inventory from which searches are generated."""

CONSUMER_VERSIONS = ("1.0", "1.12", "1.28", "1.38", NEWEST)
PROJECT_VERSIONS = ("1.9", "1.38", NEWEST)


@dataclass(slots=True)
class Inhabitants:
    """The objects of a cloud: uuids and names, and the owners of its consumers.

    Searches are generated from ``inventories``, by provider uuid and class, ``traits_of`` and
    ``aggregates_of``, by provider uuid.
    """

    providers: dict[str, str] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    traits: set[str] = field(default_factory=set)
    aggregates: set[str] = field(default_factory=set)
    consumers: set[str] = field(default_factory=set)
    owners: set[tuple[str, str]] = field(default_factory=set)
    consumer_types: set[str] = field(default_factory=set)
    inventories: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    traits_of: dict[str, list[str]] = field(default_factory=dict)
    aggregates_of: dict[str, list[str]] = field(default_factory=dict)

    def learn(self, question: ComparedQuestion, body: Any) -> None:
        """Store the objects in an answer at the newest microversion; others show no more."""
        if question.microversion != NEWEST or not isinstance(body, dict):
            return
        base, _, query = question.path.partition("?")
        parts = base.strip("/").split("/")
        if base == "/resource_providers" and not query:
            self.providers |= {one["uuid"]: one["name"] for one in body["resource_providers"]}
        elif base == "/resource_classes":
            self.classes |= {one["name"] for one in body["resource_classes"]}
        elif base == "/traits" and not query:
            self.traits |= set(body["traits"])
        elif parts[0] == "resource_providers" and len(parts) == 3:
            self._learn_of_provider(parts[1], parts[2], body)
        elif parts[0] == "allocations" and body.get("allocations"):
            self.owners.add((body["project_id"], body["user_id"]))
            self.consumer_types.add(body["consumer_type"])

    def _learn_of_provider(self, uuid: str, aspect: str, body: dict[str, Any]) -> None:
        if aspect == "inventories":
            self.inventories[uuid] = {
                name: {key: int(record[key]) for key in _FIGURES}
                for name, record in body["inventories"].items()
            }
        elif aspect == "traits":
            self.traits_of[uuid] = body["traits"]
        elif aspect == "aggregates":
            self.aggregates_of[uuid] = body["aggregates"]
            self.aggregates |= set(body["aggregates"])
        elif aspect == "allocations":
            self.consumers |= body["allocations"].keys()


def ask_for_lists() -> Iterator[ComparedQuestion]:
    """Yield the first questions: the root and the lists."""
    yield ComparedQuestion(QuestionKind.ROOT, "/", NEWEST)
    for version in ("1.2", NEWEST):
        yield ComparedQuestion(QuestionKind.CLASSES, "/resource_classes", version)
    for version in ("1.6", NEWEST):
        yield ComparedQuestion(QuestionKind.TRAITS, "/traits", version)
        yield ComparedQuestion(
            QuestionKind.TRAITS, path("/traits", name="startswith:CUSTOM_"), version
        )
        yield ComparedQuestion(QuestionKind.TRAITS, path("/traits", associated="true"), version)
        yield ComparedQuestion(QuestionKind.TRAITS, path("/traits", associated="false"), version)
    for version in PROVIDER_LIST_VERSIONS:
        yield ComparedQuestion(QuestionKind.PROVIDER_LISTS, "/resource_providers", version)


def ask_about_names(known: Inhabitants) -> Iterator[ComparedQuestion]:
    """Yield the questions about each class and trait, and the lists of providers with them."""
    for name in sorted(known.classes):
        yield ComparedQuestion(QuestionKind.CLASSES, path(f"/resource_classes/{name}"), NEWEST)
        if name in {each for held in known.inventories.values() for each in held}:
            yield _ask_for_providers(NEWEST, resources=f"{name}:1")
    for name in sorted(known.traits):
        yield ComparedQuestion(QuestionKind.TRAITS, path(f"/traits/{name}"), NEWEST)
    for name in sorted({each for held in known.traits_of.values() for each in held}):
        for value in (name, f"!{name}", f"in:{name}"):
            yield _ask_for_providers(NEWEST, required=value)
    for uuid in sorted(known.aggregates):
        for value in (uuid, f"in:{uuid}", f"!{uuid}"):
            yield _ask_for_providers(NEWEST, member_of=value)


def ask_about_providers(known: Inhabitants) -> Iterator[ComparedQuestion]:
    """Yield all questions about each provider."""
    for uuid, name in sorted(known.providers.items()):
        for aspect, versions in PROVIDER_VERSIONS.items():
            for version in versions:
                yield ComparedQuestion(
                    QuestionKind.PROVIDERS, f"/resource_providers/{uuid}{aspect}", version
                )
        yield _ask_for_providers(NEWEST, name=name)
        yield _ask_for_providers(NEWEST, uuid=uuid)
        yield _ask_for_providers(NEWEST, in_tree=uuid)


def ask_about_inventories(known: Inhabitants) -> Iterator[ComparedQuestion]:
    """Yield one question for each inventory."""
    for uuid, held in sorted(known.inventories.items()):
        for name in sorted(held):
            there = f"/resource_providers/{uuid}/inventories/{name}"
            yield ComparedQuestion(QuestionKind.PROVIDERS, there, NEWEST)


def ask_about_consumers(known: Inhabitants) -> Iterator[ComparedQuestion]:
    """Yield the questions about each consumer."""
    for uuid in sorted(known.consumers):
        for version in CONSUMER_VERSIONS:
            yield ComparedQuestion(QuestionKind.CONSUMERS, f"/allocations/{uuid}", version)


def ask_about_owners(known: Inhabitants) -> Iterator[ComparedQuestion]:
    """Yield the questions about each project, its users and its types of consumers."""
    for project in sorted({project for project, _ in known.owners}):
        for version in PROJECT_VERSIONS:
            yield _ask_for_usages(version, project_id=project)
        for consumer_type in (*sorted(known.consumer_types), "all"):
            yield _ask_for_usages(NEWEST, project_id=project, consumer_type=consumer_type)
    for project, user in sorted(known.owners):
        for version in PROJECT_VERSIONS:
            yield _ask_for_usages(version, project_id=project, user_id=user)


def ask_in_rounds(known: Inhabitants) -> Iterable[Iterator[ComparedQuestion]]:
    """Yield the questions in rounds; each asks about the objects that earlier rounds found."""
    yield ask_for_lists()
    yield ask_about_providers(known)
    yield ask_about_inventories(known)
    yield ask_about_names(known)
    yield ask_about_consumers(known)
    yield ask_about_owners(known)


def _ask_for_providers(version: str, **filters: str) -> ComparedQuestion:
    return ComparedQuestion(
        QuestionKind.PROVIDER_LISTS, path("/resource_providers", **filters), version
    )


def _ask_for_usages(version: str, **owner: str) -> ComparedQuestion:
    return ComparedQuestion(QuestionKind.PROJECTS, path("/usages", **owner), version)
