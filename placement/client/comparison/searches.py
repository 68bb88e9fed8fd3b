"""Searches for allocation candidates: read from a log, or generated from the inventories."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from urllib.parse import urlencode, urlsplit

from placement.client.comparison.question import ComparedQuestion, QuestionKind
from placement.client.comparison.survey import NEWEST, Inhabitants

SEARCH = "/allocation_candidates"

# The pattern matches a line of the request log of the old service and of this one (specification 01 section
# 12).
_LOG_LINE = re.compile(r'"GET (?P<uri>\S+)" status: \d+ .*microversion: (?P<version>\d+\.\d+)')

LIMITS = (10, 100, 1000)
VERSIONS = ("1.10", "1.12", "1.17", "1.25", "1.29", "1.34", NEWEST)
AGGREGATES_SINCE = (1, 21)
TRAITS_SINCE = (1, 17)
GROUPS_SINCE = (1, 25)
LIMIT_SINCE = (1, 16)


def read_log(lines: Iterable[str]) -> Iterator[ComparedQuestion]:
    """Yield each different search of a request log, or of a list of URLs, once.

    A URL without a microversion is asked at the newest. Lines without a search are skipped.
    """
    seen = set()
    for line in lines:
        found = _LOG_LINE.search(line)
        uri, version = (found["uri"], found["version"]) if found else (line.strip(), NEWEST)
        try:
            parts = urlsplit(uri)
        except ValueError:
            # Such as a host that begins with a bracket.
            continue
        if not parts.path.endswith(SEARCH) or not parts.query:
            continue
        question = ComparedQuestion(QuestionKind.SEARCHES, f"{SEARCH}?{parts.query}", version)
        if question not in seen:
            seen.add(question)
            yield question


def generate_searches(known: Inhabitants, number: int, seed: int) -> Iterator[ComparedQuestion]:
    """Yield ``number`` searches generated, with the seed, from the inventories of the cloud.

    Most ask for resources that one provider has, so that they find something; one in eight asks for more.
    """
    # These numbers are not secret: the same seed makes the same searches.
    draw = random.Random(seed)  # noqa: S311
    providers = sorted(uuid for uuid, held in known.inventories.items() if held)
    for _ in range(number if providers else 0):
        version = draw.choice(VERSIONS)
        parameters = _make_group(known, draw.choice(providers), draw, _parse_version(version), "")
        if _parse_version(version) >= GROUPS_SINCE and draw.random() < 0.25:
            for suffix in ("1", "2"):
                uuid = draw.choice(providers)
                parameters |= _make_group(known, uuid, draw, _parse_version(version), suffix)
            parameters["group_policy"] = draw.choice(("none", "isolate"))
        if _parse_version(version) >= LIMIT_SINCE and draw.random() < 0.5:
            parameters["limit"] = str(draw.choice(LIMITS))
        yield ComparedQuestion(QuestionKind.SEARCHES, f"{SEARCH}?{urlencode(parameters)}", version)


def _make_group(
    known: Inhabitants, uuid: str, draw: random.Random, since: tuple[int, int], suffix: str
) -> dict[str, str]:
    held = known.inventories[uuid]
    names = draw.sample(sorted(held), draw.randint(1, min(3, len(held))))
    amounts = ",".join(f"{name}:{_draw_amount(held[name], draw)}" for name in names)
    group = {f"resources{suffix}": amounts}
    traits = known.traits_of.get(uuid, [])
    if traits and since >= TRAITS_SINCE and draw.random() < 0.4:
        group[f"required{suffix}"] = draw.choice(sorted(traits))
    aggregates = known.aggregates_of.get(uuid, [])
    if aggregates and since >= AGGREGATES_SINCE and draw.random() < 0.3:
        group[f"member_of{suffix}"] = draw.choice(sorted(aggregates))
    return group


def _draw_amount(inventory: dict[str, int], draw: random.Random) -> int:
    """Draw an amount, mostly small, within the units of the inventory."""
    step = inventory["step_size"]
    most = min(inventory["max_unit"], max(inventory["total"] - inventory["reserved"], step))
    if draw.random() < 0.125:
        return int(most) + step
    steps = max(1, int(min(most, draw.choice((1, 4, most))) // step))
    return max(int(inventory["min_unit"]), steps * step)


def _parse_version(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)
