"""The service on a cloud that is given as records: random clouds, without writing each to a database."""

import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from placement import deploy
from placement.db.change_rows import NO_LOG
from placement.objects.cloud_editions import Editions
from placement.objects.picture import NO_NAMES, Look, Picture
from placement.search.cloud import Cloud
from placement.search.records import ProviderRecord
from placement.search.request import CandidateRequest, Group, NameSets
from tests.support import service


class FixedPicture(Picture):
    """A picture that nobody changes."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        # Nothing was read of a database, so no other service writes to it.
        self._editions = Editions()

    def look(self, named: NameSets = NO_NAMES, age_s: float = 0.0) -> Look:
        """Look at the cloud; no other names are known."""
        return Look(self.cloud, NO_NAMES, NO_LOG, end=lambda: None)


class Asked(service.Service):
    """The service on one cloud. ``ask`` sends a GET and returns status and document."""

    def __init__(self, cloud: Cloud, **overrides: Any) -> None:
        # A deadline that no test meets, however busy the machine is: what is compared is the whole answer.
        options = {"api__search_deadline": 600.0, **overrides}
        self.conf = service.configure(insight__enabled=True, **options)
        self.db = service.database()
        self.application = deploy.pipeline(self.conf, self.db, FixedPicture(cloud))

    def ask(self, path: str, pairs: list[tuple[str, str]], version: str = "1.39") -> Any:
        """Return the answer to a query given as pairs."""
        query = "&".join(f"{name}={quote(value, safe=':,!')}" for name, value in pairs)
        return self.request("GET", f"{path}?{query}", version=version)


def uuid_of(name: str) -> str:
    """Return a uuid that stands for a name."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def with_uuids(records: list[ProviderRecord]) -> list[ProviderRecord]:
    """Return the records with uuids where the random worlds have plain names."""
    return [
        replace(
            record,
            uuid=uuid_of(record.uuid),
            name=record.uuid,
            aggregates=frozenset(map(uuid_of, record.aggregates)),
        )
        for record in records
    ]


def pairs_of(request: CandidateRequest) -> list[tuple[str, str]]:
    """Return the query of a request about a random world, parameter by parameter."""
    pairs = [pair for group in request.groups for pair in _pairs_of_group(group)]
    if sum(bool(group.suffix) for group in request.groups) > 1 or request.isolate:
        pairs.append(("group_policy", "isolate" if request.isolate else "none"))
    pairs += [("same_subtree", ",".join(sorted(names))) for names in request.same_subtrees]
    root = [*sorted(request.root_required), *(f"!{t}" for t in sorted(request.root_forbidden))]
    if root:
        pairs.append(("root_required", ",".join(root)))
    if request.limit is not None:
        pairs.append(("limit", str(request.limit)))
    return pairs


def _pairs_of_group(group: Group) -> list[tuple[str, str]]:
    pairs = []
    if group.amounts:
        pairs.append(("resources", ",".join(f"{c}:{n}" for c, n in group.amounts.items())))
    pairs += [("required", f"in:{','.join(sorted(names))}") for names in group.required]
    if group.forbidden:
        pairs.append(("required", ",".join(f"!{trait}" for trait in sorted(group.forbidden))))
    for names in group.member_of:
        pairs.append(("member_of", f"in:{','.join(sorted(map(uuid_of, names)))}"))
    for name in sorted(group.forbidden_aggregates):
        pairs.append(("member_of", f"!{uuid_of(name)}"))
    if group.in_tree is not None:
        pairs.append(("in_tree", uuid_of(group.in_tree)))
    return [(f"{name}{group.suffix}", value) for name, value in pairs]
