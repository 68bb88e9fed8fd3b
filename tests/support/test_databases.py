"""Where the databases of the tests come from."""

import pytest

from tests.support import databases


def test_a_server_that_is_named_and_fails_is_no_reason_to_skip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A typing error must not look like a machine without that server."""
    monkeypatch.setenv("PLACEMENT_TEST_POSTGRESQL", "postgresql+psycopg2://me@127.0.0.1:1/none")

    with pytest.raises(RuntimeError, match="PLACEMENT_TEST_POSTGRESQL names a server that fails"):
        databases.admin_url.__wrapped__("postgresql")
