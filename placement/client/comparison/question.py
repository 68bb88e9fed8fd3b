"""The questions that both services are asked, and their kinds in the report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs, urlencode


class QuestionKind(StrEnum):
    """The subject of a question; the report has one line for each."""

    ROOT = "root"
    CLASSES = "resource classes"
    TRAITS = "traits"
    PROVIDER_LISTS = "lists of providers"
    PROVIDERS = "providers"
    CONSUMERS = "consumers"
    PROJECTS = "usages of projects"
    SEARCHES = "allocation candidates"


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    """A GET request: the path with its query, below the endpoint, at a microversion."""

    kind: QuestionKind
    path: str
    microversion: str

    @property
    def query(self) -> dict[str, list[str]]:
        """The parameters of the query by name."""
        return parse_qs(self.path.partition("?")[2], keep_blank_values=True)


def path(base: str, **parameters: str | int) -> str:
    """Return ``base`` with a query, every value percent-encoded."""
    return f"{base}?{urlencode(parameters)}" if parameters else base
