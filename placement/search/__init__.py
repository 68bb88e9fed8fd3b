"""The candidate engine: pure, lazy and bounded (contract 04).

``search(cloud, request)`` answers a ``CandidateRequest`` from a ``Cloud``.
"""

from placement.search.candidate import Candidate, Combination, SearchResult
from placement.search.cloud import BLOCK, Cloud, Digest, Held
from placement.search.records import CloudRows, Inventory, ProviderRecord
from placement.search.request import (
    CandidateRequest,
    Group,
    UnknownClass,
    UnknownName,
    UnknownTrait,
)
from placement.search.search import WORK_LIMIT, search
from placement.search.tally import Tally

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
    "ProviderRecord",
    "SearchResult",
    "Tally",
    "UnknownClass",
    "UnknownName",
    "UnknownTrait",
    "search",
]
