"""Providers as the API shows them, in JSON (specification 02 section 3.1).

Ten thousand providers have seventy thousand links: these are one text with the uuid put in, not as
many objects. What a search finds is shown from texts that are kept from answer to answer until the
provider changes. A uuid needs no escaping, a name does.
"""

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import orjson

from placement.handlers.kept_texts import KeptTexts
from placement.objects.resource_provider import ProviderRow
from placement.schemas.windows import Windows
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes
from placement.web.request import Request
from placement.web.response import link

TREES_SHOWN_SINCE = (1, 14)

BEGIN, END = b'{"resource_providers":[', b"]}"
UUID_HERE = "<uuid>"

RELATIONS = Windows(
    {
        0: ("inventories", "usages"),
        1: ("inventories", "usages", "aggregates"),
        6: ("inventories", "usages", "aggregates", "traits"),
        11: ("inventories", "usages", "aggregates", "traits", "allocations"),
    }
)


class Form(NamedTuple):
    """How a request has its providers shown.

    ``links``: the list of links in JSON, cut where the uuid goes.
    """

    trees: bool
    links: tuple[str, ...]


def form(request: Request) -> Form:
    """Return the form of the request's version and mount point."""
    href = link(request, f"/resource_providers/{UUID_HERE}")
    relations = RELATIONS.at(request.version.minor)
    links = [{"rel": "self", "href": href}]
    links += [{"rel": relation, "href": f"{href}/{relation}"} for relation in relations]
    pieces = tuple(orjson.dumps(links).decode().split(UUID_HERE))
    return Form(request.version >= TREES_SHOWN_SINCE, pieces)


def document(provider: ProviderRow, shown: Form) -> bytes:
    """Return one provider."""
    _, uuid, name, generation, parent_uuid, root_uuid, _ = provider
    place = ""
    if shown.trees:
        parent = "null" if parent_uuid is None else f'"{parent_uuid}"'
        place = f'"parent_provider_uuid":{parent},"root_provider_uuid":"{root_uuid}",'
    return (
        f'{{"uuid":"{uuid}","name":{orjson.dumps(name).decode()},"generation":{generation},'
        f'{place}"links":{uuid.join(shown.links)}}}'
    ).encode()


def listed(documents: list[bytes]) -> bytes:
    """Return the body of a list of providers. Megabytes are copied once: new memory is dear."""
    if not documents:
        return BEGIN + END
    parts = documents.copy()
    parts[0] = BEGIN + parts[0]
    parts[-1] += END
    return b",".join(parts)


def found_in(cloud: Cloud, found: Indexes, shown: Form) -> tuple[bytes, datetime | None]:
    """Return the body of a list of providers, and when the last of them was modified, if known.

    The caller holds the lock of the picture. Kept are some 800 bytes for each provider that was ever
    found.
    """
    kept = KeptTexts.on(cloud, "providers", shown)
    stamps = cloud.stamps[found]
    documents = kept.of(found, stamps, lambda index: document(_provider(cloud, index), shown))
    return listed(documents), _moment(cloud.modified[found].max(initial=0))


def _provider(cloud: Cloud, index: int) -> ProviderRow:
    parent, root = cloud.parents[index], cloud.roots[index]
    return ProviderRow(
        id=int(cloud.ids[index]),
        uuid=str(cloud.uuids[index]),
        name=cloud.names[index],
        generation=int(cloud.generations[index]),
        parent_uuid=None if parent < 0 else str(cloud.uuids[parent]),
        root_uuid=str(cloud.uuids[root]),
        modified_at=_moment(cloud.modified[index]),
    )


def _moment(seconds: np.int64) -> datetime | None:
    return datetime.fromtimestamp(int(seconds), UTC) if seconds else None
