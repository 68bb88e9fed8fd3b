"""The answer of GET /allocation_candidates, from prepared pieces (contract 04 section 4).

A thousand candidates are a megabyte of text, nearly all of it the same from one answer to the next.
So an allocation request is a template that takes uuids, one per shape of candidates, and a provider's
summary is kept from answer to answer until the provider changes. No text needs escaping: uuids,
class, trait and suffix names are letters, digits, dashes and underscores.
"""

from collections.abc import Collection, Iterable, Mapping
from weakref import WeakKeyDictionary

import numpy as np

from placement.search.candidate import SearchResult, Shape
from placement.search.cloud import MOST_UNUSED_NAMES, Cloud
from placement.search.index_set import Indexes
from placement.web.microversion import Version

ALLOCATIONS_AS_OBJECT_SINCE = (1, 12)
TRAITS_SINCE = (1, 17)
ALL_CLASSES_SINCE = (1, 27)
WHOLE_TREES_SINCE = (1, 29)
MAPPINGS_SINCE = (1, 34)

CUSTOM_PREFIX = "CUSTOM_"


def render(
    cloud: Cloud, result: SearchResult, requested: Collection[str], version: Version
) -> bytes:
    """Return the JSON body. The caller holds the lock of the cloud.

    :param requested: the classes that some group asks for.
    """
    requests = ",".join(_allocation_requests(cloud, result, version)).encode()
    shown = result.summarised(cloud, whole_trees=version >= WHOLE_TREES_SINCE)
    if version >= WHOLE_TREES_SINCE:
        summaries = _kept.setdefault(cloud, _Summaries()).of(cloud, shown)
    else:
        summaries = [",".join(_old_summaries(cloud, shown, requested, version)).encode()]
    head, middle = b'{"allocation_requests":[', b'],"provider_summaries":{'
    return b"".join((head, requests, middle, *summaries, b"}}"))


# -- allocation requests -----------------------------------------------------------------------


def _allocation_requests(cloud: Cloud, result: SearchResult, version: Version) -> Iterable[str]:
    uuids = cloud.uuids
    mapped = version >= MAPPINGS_SINCE
    if result.uniform is not None and result.pattern is not None:
        shape, taking, serving = result.pattern
        template = _template(shape, version)
        times = len(taking) + mapped * len(serving)
        return [template % ((uuids[index],) * times) for index in result.uniform.tolist()]
    templates: dict[Shape, str] = {}
    texts = []
    for candidate in result.mixed:
        members = candidate.members
        shape, taking, serving = candidate.combination
        template = templates.get(shape) or templates.setdefault(shape, _template(shape, version))
        takers = [uuids[members[place]] for place in taking]
        if not mapped:
            texts.append(template % tuple(takers))
        elif serving is taking:
            texts.append(template % (*takers, *takers))
        else:
            texts.append(template % (*takers, *[uuids[members[place]] for place in serving]))
    return texts


def _template(shape: Shape, version: Version) -> str:
    """Return the text of a candidate with ``%s`` for uuids: of those that take, then that serve."""
    if version < ALLOCATIONS_AS_OBJECT_SINCE:
        parts = [
            f'{{"resource_provider":{{"uuid":"%s"}},"resources":{_amounts(amounts)}}}'
            for amounts in shape.amounts
        ]
        return f'{{"allocations":[{",".join(parts)}]}}'
    parts = [f'"%s":{{"resources":{_amounts(amounts)}}}' for amounts in shape.amounts]
    text = f'{{"allocations":{{{",".join(parts)}}}'
    if version >= MAPPINGS_SINCE:
        lists = [(suffix, ",".join(['"%s"'] * count)) for suffix, count in shape.served]
        served = ",".join(f'"{suffix}":[{uuids}]' for suffix, uuids in lists)
        text += f',"mappings":{{{served}}}'
    return text + "}"


def _amounts(amounts: Mapping[str, int]) -> str:
    return "{" + ",".join(f'"{name}":{amount}' for name, amount in amounts.items()) + "}"


# -- provider summaries ------------------------------------------------------------------------


class _Summaries:
    """The summaries of one cloud in the newest form, each as of a stamp of its provider.

    ``texts``: by provider index what is the provider's own, from the comma before it on, and its
    list of traits, which is one object for all providers that have the same. (An array of objects,
    since the answer picks a thousand trees from it at once.)
    """

    def __init__(self) -> None:
        self.stamps = np.full(0, -1, np.int64)
        self.texts = np.empty((0, 2), np.object_)
        self.traits: dict[tuple[str, ...], bytes] = {}

    def of(self, cloud: Cloud, shown: Indexes) -> list[bytes]:
        """Return the pieces of ``"<uuid>": {...}`` for each provider, separated by commas."""
        missing = cloud.size - len(self.stamps)
        if missing > 0:
            self.stamps = np.append(self.stamps, np.full(missing, -1))
            self.texts = np.append(self.texts, np.empty((missing, 2), np.object_), axis=0)
        stamps = cloud.stamps[shown]
        for index in shown[self.stamps[shown] != stamps].tolist():
            self.texts[index] = _without_traits(cloud, index), self._traits(cloud.traits[index])
        self.stamps[shown] = stamps
        pieces: list[bytes] = self.texts[shown].ravel().tolist()
        if pieces:
            pieces[0] = pieces[0].removeprefix(b",")
        return pieces

    def _traits(self, names: tuple[str, ...]) -> bytes:
        text = self.traits.get(names)
        if text is None:
            if len(self.traits) > 2 * len(self.stamps) + MOST_UNUSED_NAMES:
                self.traits.clear()
            text = self.traits[names] = f"{_list_of_traits(names)}}}".encode()
        return text


_kept: WeakKeyDictionary[Cloud, _Summaries] = WeakKeyDictionary()


def _old_summaries(
    cloud: Cloud, shown: Indexes, requested: Collection[str], version: Version
) -> Iterable[str]:
    """Yield ``"<uuid>": {...}`` for each provider in the form before 1.29."""
    wanted = None if version >= ALL_CLASSES_SINCE else requested
    for index in shown.tolist():
        text = f'"{cloud.uuids[index]}":{{{_resources(cloud, index, wanted)}'
        if version >= TRAITS_SINCE:
            text += f',"traits":{_list_of_traits(cloud.traits[index])}'
        yield text + "}"


def _without_traits(cloud: Cloud, index: int) -> bytes:
    """Return a comma and a summary up to its list of traits."""
    parent = int(cloud.parents[index])
    parent_text = "null" if parent < 0 else f'"{cloud.uuids[parent]}"'
    root = cloud.uuids[int(cloud.roots[index])]
    return (
        f',"{cloud.uuids[index]}":{{{_resources(cloud, index, None)},'
        f'"parent_provider_uuid":{parent_text},"root_provider_uuid":"{root}","traits":'
    ).encode()


def _resources(cloud: Cloud, index: int, wanted: Collection[str] | None) -> str:
    records = [
        f'"{name}":{{"capacity":{capacity},"used":{used}}}'
        for name, capacity, used in cloud.inventories[index]
        if wanted is None or name in wanted
    ]
    return f'"resources":{{{",".join(records)}}}'


def _list_of_traits(names: tuple[str, ...]) -> str:
    ordered = sorted(names, key=lambda name: name.startswith(CUSTOM_PREFIX))
    return "[" + ",".join(f'"{name}"' for name in ordered) + "]"
