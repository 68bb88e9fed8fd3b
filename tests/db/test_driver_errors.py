"""What the numbers and words of errors mean, where the number alone does not say."""

import pymysql
import pytest
from sqlalchemy import exc

from placement.db import driver_errors


def error(number: int, words: str, *, is_dropped: bool = False) -> exc.DBAPIError:
    """Return the error as SQLAlchemy gives it."""
    origin = pymysql.err.OperationalError(number, words)
    return exc.OperationalError("COMMIT", {}, origin, connection_invalidated=is_dropped)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT", "conflict"),
        ("Got error 149 \"Lock deadlock; Retry transaction\" during COMMIT", "conflict"),
        ("Fehler 149 - 'Lock deadlock; Retry transaction' beim COMMIT", "conflict"),
        ("Got error 5 \"Input/output error\" during COMMIT", "disconnect"),
        ("Got error 1491 during COMMIT", "disconnect"),
    ],
)
def test_an_error_during_commit_is_a_conflict_or_a_node_that_is_lost(words: str, kind: str) -> None:
    """A group of MySQL servers says so of a transaction that another member was faster than."""
    assert driver_errors.classify(error(1180, words)) == kind


def test_a_server_that_has_become_a_replica_is_not_gone() -> None:
    """Its connection is dropped, and its answer is known: nothing was written."""
    dropped = error(1290, "The server is running with --super-read-only", is_dropped=True)

    assert driver_errors.classify(dropped) == "read_only"
    assert not driver_errors.is_disconnect(dropped)
    assert driver_errors.is_of_replica(dropped)
