"""Fixtures that gabbi suites may name.

``APIFixture`` is there in every suite, named or not: the service with its defaults, under noauth2,
on a database that holds the standard traits and resource classes and nothing else.
"""

from typing import Any, ClassVar

from gabbi import fixture

from tests.support import candidate_data, ledger_data
from tests.support.service import Service, running

current: Service | None = None
kind = "sqlite"
"""Of the database that the next suite runs on."""


def application() -> Any:
    """Return a WSGI application that hands over to that of the suite that is running."""

    def serve(environ: dict[str, Any], start_response: Any) -> Any:
        assert current is not None
        return current.application(environ, start_response)

    return serve


class APIFixture(fixture.GabbiFixture):
    """The service; subclasses differ in ``overrides``, named ``<group>__<option>``."""

    overrides: ClassVar[dict[str, Any]] = {}

    def start_fixture(self) -> None:
        global current
        self._running = running(kind, **self.overrides)
        current = self._running.__enter__()

    def stop_fixture(self) -> None:
        self._running.__exit__(None, None, None)


class CORSFixture(APIFixture):
    """Scripts of http://valid.example.com may call."""

    overrides = {"cors__allowed_origin": ["http://valid.example.com"]}


class InsightFixture(APIFixture):
    """What operators ask is served as well."""

    overrides = {"insight__enabled": True}


class InsightWithoutClaimsFixture(APIFixture):
    """All that operators ask but claims."""

    overrides = {"insight__enabled": True, "insight__claims": False}


class HistoryFixture(APIFixture):
    """Each write leaves what it found and left."""

    overrides = {"insight__enabled": True, "insight__history_days": 30.0}


class FewClaimsFixture(APIFixture):
    """Claims of one consumer at a time."""

    overrides = {"insight__enabled": True, "insight__claims_most": 1}


class LedgerFixture(APIFixture):
    """Three hosts, and consumers as older software left them (tests/support/ledger_data.py)."""

    def start_fixture(self) -> None:
        super().start_fixture()
        assert current is not None
        ledger_data.add_cloud(current.db)
        ledger_data.add_consumers(current.db)


class CandidatesFixture(APIFixture):
    """A cloud that shows every window of the search (``WINDOWS`` of candidate_data.py)."""

    def start_fixture(self) -> None:
        super().start_fixture()
        assert current is not None
        candidate_data.load(current, candidate_data.WINDOWS)
