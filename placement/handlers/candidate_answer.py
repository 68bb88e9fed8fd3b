"""The answer of GET /allocation_candidates, from prepared pieces (contract 04 section 4).

A thousand candidates are a megabyte of text, nearly all of it the same from one answer to the next.
So an allocation request is a template that takes uuids, one per kind of candidate, and a provider's
summary is kept from answer to answer until the provider changes. No text needs escaping: uuids,
class, trait and suffix names are letters, digits, dashes and underscores.
"""

from collections.abc import Collection, Iterable, Mapping
from weakref import WeakKeyDictionary

from placement.search.candidate import Combination, SearchResult
from placement.search.cloud import Cloud
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
    requests = ",".join(_allocation_requests(cloud, result, version))
    shown = result.summarised(cloud, whole_trees=version >= WHOLE_TREES_SINCE).tolist()
    summaries = ",".join(_summaries(cloud, shown, requested, version))
    return f'{{"allocation_requests":[{requests}],"provider_summaries":{{{summaries}}}}}'.encode()


# -- allocation requests -----------------------------------------------------------------------


def _allocation_requests(cloud: Cloud, result: SearchResult, version: Version) -> Iterable[str]:
    uuids = cloud.uuids
    if result.uniform is not None and result.pattern is not None:
        template, positions = _template(result.pattern, version)
        times = len(positions)
        return [template % ((uuids[index],) * times) for index in result.uniform.tolist()]
    templates: dict[int, tuple[str, tuple[int, ...]]] = {}
    texts = []
    for candidate in result.mixed:
        known = templates.get(id(candidate.combination))
        if known is None:
            known = templates[id(candidate.combination)] = _template(candidate.combination, version)
        members = candidate.members
        texts.append(known[0] % tuple([uuids[members[place]] for place in known[1]]))
    return texts


def _template(combination: Combination, version: Version) -> tuple[str, tuple[int, ...]]:
    """Return the text of a candidate with ``%s`` for its uuids, and the positions to fill in."""
    positions = [place for place, _ in combination.pieces]
    if version < ALLOCATIONS_AS_OBJECT_SINCE:
        parts = [
            f'{{"resource_provider":{{"uuid":"%s"}},"resources":{_amounts(amounts)}}}'
            for _, amounts in combination.pieces
        ]
        return f'{{"allocations":[{",".join(parts)}]}}', tuple(positions)
    parts = [f'"%s":{{"resources":{_amounts(amounts)}}}' for _, amounts in combination.pieces]
    text = f'{{"allocations":{{{",".join(parts)}}}'
    if version >= MAPPINGS_SINCE:
        mappings = []
        for suffix, places in combination.served:
            mappings.append(f'"{suffix}":[{",".join(["%s"] * len(places))}]'.replace("%s", '"%s"'))
            positions += places
        text += f',"mappings":{{{",".join(mappings)}}}'
    return text + "}", tuple(positions)


def _amounts(amounts: Mapping[str, int]) -> str:
    return "{" + ",".join(f'"{name}":{amount}' for name, amount in amounts.items()) + "}"


# -- provider summaries ------------------------------------------------------------------------


class _Pieces:
    """The summaries of one cloud in the newest form, each as of a stamp of its provider.

    ``texts``: by provider index the stamp, what is the provider's own, and its list of traits, which
    is one text for all providers that have the same.
    """

    def __init__(self) -> None:
        self.texts: dict[int, tuple[int, str, str]] = {}
        self.traits: dict[tuple[str, ...], str] = {}


_pieces: WeakKeyDictionary[Cloud, _Pieces] = WeakKeyDictionary()


def _summaries(
    cloud: Cloud, shown: list[int], requested: Collection[str], version: Version
) -> Iterable[str]:
    """Yield ``"<uuid>": {...}`` for each provider."""
    pieces = _pieces.setdefault(cloud, _Pieces())
    if version < WHOLE_TREES_SINCE:
        wanted = None if version >= ALL_CLASSES_SINCE else requested
        for index in shown:
            text = f'"{cloud.uuids[index]}":{{{_resources(cloud, index, wanted)}'
            if version >= TRAITS_SINCE:
                text += f',"traits":{_traits(pieces, cloud.traits[index])}'
            yield text + "}"
        return
    texts = pieces.texts
    for index, stamp in zip(shown, cloud.stamps[shown].tolist(), strict=True):
        known = texts.get(index)
        if known is None or known[0] != stamp:
            traits = _traits(pieces, cloud.traits[index])
            known = texts[index] = (stamp, _without_traits(cloud, index), traits)
        yield f"{known[1]}{known[2]}}}"


def _without_traits(cloud: Cloud, index: int) -> str:
    """Return a summary up to its list of traits."""
    parent = int(cloud.parents[index])
    parent_text = "null" if parent < 0 else f'"{cloud.uuids[parent]}"'
    root = cloud.uuids[int(cloud.roots[index])]
    return (
        f'"{cloud.uuids[index]}":{{{_resources(cloud, index, None)},'
        f'"parent_provider_uuid":{parent_text},"root_provider_uuid":"{root}","traits":'
    )


def _resources(cloud: Cloud, index: int, wanted: Collection[str] | None) -> str:
    records = [
        f'"{name}":{{"capacity":{capacity},"used":{used}}}'
        for name, capacity, used in cloud.inventories[index]
        if wanted is None or name in wanted
    ]
    return f'"resources":{{{",".join(records)}}}'


def _traits(pieces: _Pieces, names: tuple[str, ...]) -> str:
    text = pieces.traits.get(names)
    if text is None:
        ordered = sorted(names, key=lambda name: name.startswith(CUSTOM_PREFIX))
        text = pieces.traits[names] = "[" + ",".join(f'"{name}"' for name in ordered) + "]"
    return text
