"""The allocation records of all consumers of a tree, read again only where they changed.

Specification 05 section C5. Every write of a consumer moves its generation, wherever its allocations are, and
the lists of a provider's consumers show generations: so a record stays valid until its generation differs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # The HTTP libraries take long to import, and database commands import this module for its progress
    # display.
    from placement.client.api import PlacementAPI, WholeTree

LOG = logging.getLogger(__name__)

Records = dict[str, dict[str, Any]]
"""Consumer UUID to allocation record, as GET /allocations/{consumer} answers it."""

ProgressCallback = Callable[[str, int, int], None]
"""A callback that takes the current work, the amount done, and the total."""

LOG_EVERY = 0.1


def log_progress(what: str, done: int, total: int) -> None:
    """Log the progress, ten times in all."""
    step = max(1, int(total * LOG_EVERY))
    if total > 1 and (done % step == 0 or done == total):
        LOG.info("%s: %d of %d", what, done, total)


class ConsumerRecords:
    """The records read so far of one tree; the next tree replaces them."""

    def __init__(self, api: PlacementAPI, progress: ProgressCallback) -> None:
        self._api = api
        self._progress = progress
        self._known: dict[str, tuple[int | None, dict[str, Any]]] = {}

    def consumers(self, context: Any, providers: Iterable[str]) -> dict[str, int | None]:
        """Read the consumers of the providers: UUID to generation. This sends one request per provider."""
        lists = self._api.each(
            lambda uuid: self._api.allocations_of_provider(context, uuid), providers
        )
        return {
            consumer: held.get("consumer_generation")
            for shown in lists.values()
            for consumer, held in shown.items()
        }

    def in_snapshot(self, context: Any, whole: WholeTree, members: Iterable[str]) -> Records:
        """Return the allocations of each consumer of some members of a tree.

        The snapshot contains them, except for consumers that also have allocations elsewhere.
        """
        wanted = set(members)
        held: dict[str, dict[str, Any]] = {}
        consumers: dict[str, int | None] = {}
        for one in whole.providers:
            for consumer, shown in one["consumers"].items():
                places = held.setdefault(consumer, _begin_record(shown))["allocations"]
                places[one["uuid"]] = {
                    "generation": one["generation"],
                    "resources": shown["resources"],
                }
                if one["uuid"] in wanted:
                    consumers[consumer] = shown["generation"]
                if shown.get("elsewhere", True) or shown["generation"] is None:
                    held[consumer]["partly"] = True
        for consumer, generation in consumers.items():
            if "partly" not in held[consumer]:
                self._known[consumer] = (generation, held[consumer])
        return self.read(context, consumers)

    def read(self, context: Any, consumers: Mapping[str, int | None]) -> Records:
        """Return the allocations of each consumer, on all providers; one request per changed consumer.

        Consumers without allocations are left out: their records lack project and generation, and the service
        would reject a reshape with them.
        """
        changed = [
            consumer
            for consumer, generation in consumers.items()
            if generation is None or self._known.get(consumer, (None,))[0] != generation
        ]
        read = self._api.each(
            lambda consumer: self._api.allocations_of_consumer(context, consumer),
            changed,
            lambda done: self._progress("gathering allocations", done, len(changed)),
        )
        self._known = {
            consumer: (record.get("consumer_generation"), record)
            for consumer in consumers
            for record in (read[consumer] if consumer in read else self._known[consumer][1],)
        }
        return {
            consumer: _copy_record(record)
            for consumer, (_, record) in self._known.items()
            if record["allocations"]
        }


def _begin_record(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a consumer in a tree to the form of GET /allocations/{consumer}."""
    return {
        "allocations": {},
        "project_id": shown["project"],
        "user_id": shown["user"],
        "consumer_generation": shown["generation"],
    }


def _copy_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the parts that a driver edits; ``copy.deepcopy`` takes ten times as long."""
    places = {
        uuid: {**place, "resources": dict(place["resources"])}
        for uuid, place in record["allocations"].items()
    }
    return {**record, "allocations": places}
