"""The candidate engine: pure, lazy and bounded (specification 04).

``search(cloud, request)`` answers a ``CandidateRequest`` from a ``Cloud``.
"""

from placement.search.candidate import Candidate, Combination, SearchResult
from placement.search.cloud import BLOCK, Cloud, Digest
from placement.search.inventory_table import Held
from placement.search.records import CloudRows, Inventory, ProviderRecord
from placement.search.request import (
    CandidateRequest,
    Group,
    Names,
    UnknownClass,
    UnknownName,
    UnknownTrait,
)
from placement.search.search import WORK_LIMIT, search
from placement.search.tally import Reason, Step, Stop, Stopped, Tally, Unit

__all__ = [
    "BLOCK",
    "WORK_LIMIT",
    "Candidate",
    "CandidateRequest",
    "Cloud",
    "CloudRows",
    "Combination",
    "Digest",
    "Group",
    "Held",
    "Inventory",
    "Names",
    "ProviderRecord",
    "Reason",
    "SearchResult",
    "Step",
    "Stop",
    "Stopped",
    "Tally",
    "Unit",
    "UnknownClass",
    "UnknownName",
    "UnknownTrait",
    "search",
]
