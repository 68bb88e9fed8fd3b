"""An account of MySQL as ``CREATE USER`` makes it: ``caching_sha2_password``, by both drivers."""

import importlib.util
from collections.abc import Iterator

import pytest
import sqlalchemy

from tests.support.databases import opened
from tests.support.effort import in_one_process
from tests.support.fetched import Fetched, serving

TOLD = {
    ("pymysql", "encrypted"): "",
    ("pymysql", "plain"): "ssl_disabled=1",
    ("mysqldb", "encrypted"): "ssl_mode=REQUIRED",
    ("mysqldb", "plain"): "",
}
"""PyMySQL encrypts if the server can; mysqlclient with the library of MariaDB if it is told to."""


@pytest.fixture(scope="module", params=in_one_process("accounts", "mysql"))
def server(request: pytest.FixtureRequest) -> Iterator[Fetched]:
    with serving(request.param, "--tls-version=TLSv1.3") as started:
        yield started


@pytest.mark.ci
@pytest.mark.parametrize(("driver", "how"), TOLD)
def test_the_usual_account_is_let_in(server: Fetched, driver: str, how: str) -> None:
    """Also by its whole password, which the server asks for while it remembers nothing of it."""
    if driver == "mysqldb" and importlib.util.find_spec("MySQLdb") is None:
        pytest.skip("mysqlclient is not installed")
    with opened(server.url) as admin, admin.engine.connect() as connection:
        connection.exec_driver_sql("DROP USER IF EXISTS placement")
        connection.exec_driver_sql("CREATE USER placement IDENTIFIED BY 'SECRET'")
        connection.exec_driver_sql("CREATE DATABASE IF NOT EXISTS placement")
        connection.exec_driver_sql("GRANT ALL ON placement.* TO placement")
    url = sqlalchemy.make_url(server.url).set(
        drivername=f"mysql+{driver}", username="placement", password="SECRET", database="placement"
    )
    url = url.update_query_string(TOLD[driver, how])

    for _ in ("asked for the password", "remembered"):
        with (
            opened(url.render_as_string(hide_password=False)) as database,
            database.engine.connect() as connection,
        ):
            used = connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()[1]
            assert bool(used) == (how == "encrypted")
