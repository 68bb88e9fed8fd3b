"""The answer of GET /allocation_candidates, from prepared pieces (specification 04 section 4).

An allocation request is a template that is filled with uuids, one template for each shape of candidates. A
tree's summaries are kept between answers until one of its providers changes. No text needs escaping: uuids,
class, trait and suffix names are letters, digits, dashes and underscores.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import os_traits

from placement.handlers.kept_texts import KeptTexts
from placement.search.candidate import CandidateShape, SearchResult, SizeLimit
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes
from placement.web.microversion import Version

ALLOCATIONS_AS_OBJECT_SINCE = (1, 12)
TRAITS_SINCE = (1, 17)
ALL_CLASSES_SINCE = (1, 27)
WHOLE_TREES_SINCE = (1, 29)
MAPPINGS_SINCE = (1, 34)

UUID_LENGTH = 36

PIECE = 256 * 1024
SHORT = 5
"""Pieces of an answer that has one of everything."""

HEAD, MIDDLE, TAIL = b'{"allocation_requests":[', b'],"provider_summaries":{', b"}}"


def measure(shape: CandidateShape, version: Version) -> int:
    """Return how many bytes of the answer an allocation request of this shape takes."""
    template = _make_template(shape, version)
    return len(template) + template.count("%s") * (UUID_LENGTH - len("%s")) + len(",")


@dataclass(frozen=True)
class CandidateAnswer:
    """The data of the picture that an answer needs, so that the picture can change while it is written."""

    uuids: Sequence[str | None]
    result: SearchResult
    summaries: list[bytes]
    version: Version

    def write_pieces(self) -> list[bytes]:
        """Return the JSON body in pieces; at most one piece is in memory twice."""
        texts = _write_requests(self.uuids, self.result, self.version)
        together = max(1, PIECE // len(texts[0])) if texts else 1
        requests = [
            ",".join(texts[begin : begin + together]).encode()
            for begin in range(0, len(texts), together)
        ]
        size = sum(map(len, self.summaries))
        together = max(1, len(self.summaries) * PIECE // size) if size else 1
        summaries = [
            b"".join(self.summaries[begin : begin + together])
            for begin in range(0, len(self.summaries), together)
        ]
        following = [b"," + piece for piece in requests[1:]]
        body = [HEAD, *requests[:1], *following, MIDDLE, *summaries, TAIL]
        return body if len(body) > SHORT else [b"".join(body)]


def prepare(
    cloud: Cloud,
    result: SearchResult,
    requested: Collection[str],
    version: Version,
    size_limit: SizeLimit | None = None,
) -> CandidateAnswer:
    """Return the answer, not yet written, with as many candidates as ``size_limit`` allows.

    The caller has the picture; writing the answer does not need it. The search kept the allocation requests
    within the limit; the summaries are added to them.

    :param requested: the classes that the groups request.
    """
    summaries = _write_summaries(cloud, result, requested, version)
    while size_limit is not None and len(result) > 1:
        needed = size_limit.measure(result) + sum(map(len, summaries))
        if needed <= size_limit.most:
            break
        size_limit.used_up = True
        result = result.first(min(len(result) * size_limit.most // needed, len(result) - 1))
        summaries = _write_summaries(cloud, result, requested, version)
    return CandidateAnswer(cloud.lasting_uuids(), result, summaries, version)


def _write_summaries(
    cloud: Cloud, result: SearchResult, requested: Collection[str], version: Version
) -> list[bytes]:
    if version >= WHOLE_TREES_SINCE:
        return _write_trees(cloud, result.trees(cloud), version)
    wanted = None if version >= ALL_CLASSES_SINCE else requested
    shown = result.find_summarised(cloud).tolist()
    return [",".join([_write_summary(cloud, index, version, wanted) for index in shown]).encode()]


# -- allocation requests -----------------------------------------------------------------------


def _write_requests(
    uuids: Sequence[str | None], result: SearchResult, version: Version
) -> list[str]:
    mapped = version >= MAPPINGS_SINCE
    if result.uniform is not None and result.pattern is not None:
        shape, taking, serving = result.pattern
        template = _make_template(shape, version)
        times = len(taking) + mapped * len(serving)
        return [template % ((uuids[index],) * times) for index in result.uniform.tolist()]
    templates: dict[CandidateShape, str] = {}
    texts = []
    for candidate in result.mixed:
        members = candidate.members
        shape, taking, serving = candidate.combination
        if shape not in templates:
            templates[shape] = _make_template(shape, version)
        places = (*taking, *serving) if mapped else taking
        texts.append(templates[shape] % tuple([uuids[members[place]] for place in places]))
    return texts


def _make_template(shape: CandidateShape, version: Version) -> str:
    """Return the text of a candidate with ``%s`` for uuids: of its allocations, then of its mappings."""
    if version < ALLOCATIONS_AS_OBJECT_SINCE:
        parts = [
            f'{{"resource_provider":{{"uuid":"%s"}},"resources":{_write_amounts(amounts)}}}'
            for amounts in shape.amounts
        ]
        return f'{{"allocations":[{",".join(parts)}]}}'
    parts = [f'"%s":{{"resources":{_write_amounts(amounts)}}}' for amounts in shape.amounts]
    text = f'{{"allocations":{{{",".join(parts)}}}'
    if version >= MAPPINGS_SINCE:
        lists = [(suffix, ",".join(['"%s"'] * count)) for suffix, count in shape.served]
        served = ",".join(f'"{suffix}":[{uuids}]' for suffix, uuids in lists)
        text += f',"mappings":{{{served}}}'
    return text + "}"


def _write_amounts(amounts: Mapping[str, int]) -> str:
    return "{" + ",".join(f'"{name}":{amount}' for name, amount in amounts.items()) + "}"


# -- provider summaries ------------------------------------------------------------------------


def _write_trees(cloud: Cloud, roots: Indexes, version: Version) -> list[bytes]:
    """Return a text for each tree, in the form since 1.29; together they are the summaries.

    A thousand trees of 16 take 3.4 ms of processor time, 6.3 among a million providers; with a text for each
    provider they took 7.9 and 11.4.
    """

    def write(root: int) -> bytes:
        members = cloud.forest.tree(root).tolist()
        return "".join([f",{_write_summary(cloud, index, version)}" for index in members]).encode()

    texts = KeptTexts.on(cloud, "candidate summaries").read_or_write(
        roots, cloud.tree_stamps(roots), write
    )
    if texts:
        texts[0] = texts[0].removeprefix(b",")
    return texts


def _write_summary(
    cloud: Cloud, index: int, version: Version, wanted: Collection[str] | None = None
) -> str:
    """Return ``"<uuid>": {...}`` of a provider, with the ``wanted`` classes; None: all."""
    records = [
        f'"{name}":{{"capacity":{capacity},"used":{used}}}'
        for name, capacity, used, _ in cloud.inventories[index]
        if wanted is None or name in wanted
    ]
    text = f'"{cloud.uuids[index]}":{{"resources":{{{",".join(records)}}}'
    if version >= WHOLE_TREES_SINCE:
        parent = int(cloud.parents[index])
        parent_text = "null" if parent < 0 else f'"{cloud.uuids[parent]}"'
        root = cloud.uuids[int(cloud.roots[index])]
        text += f',"parent_provider_uuid":{parent_text},"root_provider_uuid":"{root}"'
    if version >= TRAITS_SINCE:
        text += f',"traits":{_write_traits(cloud.traits[index])}'
    return text + "}"


@lru_cache(maxsize=4096)
def _write_traits(names: tuple[str, ...]) -> str:
    ordered = sorted(names, key=os_traits.is_custom)
    return "[" + ",".join(f'"{name}"' for name in ordered) + "]"
