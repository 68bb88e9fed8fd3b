"""Each way in which a database refuses: what is wrong, what to do about *that*, and whether a start waits."""

import gc
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import exc, make_url

from placement import advice
from placement.db import refusals
from placement.db.engine import make_engine
from tests.proofs.faults import servers
from tests.support.databases import opened
from tests.support.processes import free_port
from tests.support.revisions import on
from tests.support.service import configure

FILE = re.compile(r"\b(?:file|path)\b")


def refused(url: str) -> tuple[str, bool]:
    """Connect; return what an operator reads, and whether a start would wait."""
    conf = configure(placement_database__connection=url)
    try:
        make_engine(url).connect().close()
    except Exception as error:
        words = advice.explain(error, conf)
        assert words is not None and "\n" not in words
        assert "s3cret" not in words and "LocationInfo" not in words
        return words, refusals.passes(error)
    raise AssertionError("the database took the connection")


@pytest.fixture
def account(url: str) -> Iterator[str]:
    """The URL of a database with an account of its own, whose password is right where the server looks."""
    parsed = make_url(url)
    name = f"someone_{parsed.database}"
    mysql = "mysql" in url
    user = f"'{name}'@'127.0.0.1'" if mysql else name
    made = f"CREATE USER {user} IDENTIFIED BY 's3cret'" if mysql else f"CREATE ROLE {name} LOGIN"
    with opened(url) as database, database.engine.connect() as connection:
        connection.exec_driver_sql(made)
        yield parsed.set(username=name, password="s3cret").render_as_string(hide_password=False)
        connection.exec_driver_sql(f"DROP USER {user}" if mysql else f"DROP ROLE {name}")


@on("postgresql", "mysql")
def test_a_server_that_is_not_there(url: str) -> None:
    """Nothing listens; the host has no address; the socket is missing: a start waits for each."""
    parsed = make_url(url)
    for changed, wrong in (
        (parsed.set(port=free_port()), "nothing listens at its host and port"),
        (parsed.set(host="nowhere.invalid"), "the name of its host has no address"),
        (parsed.set(host=None, port=None, query=_socket(url)), "the socket of its server is not there"),
    ):
        words, waits = refused(changed.render_as_string(hide_password=False))

        assert f"cannot be reached: {wrong}." in words
        assert waits
        assert "password" not in words
    with warnings.catch_warnings():
        # PyMySQL does not close the socket with which it found no file.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _socket(url: str) -> dict[str, str]:
    return {"unix_socket": "/nowhere/mysqld.sock"} if "mysql" in url else {"host": "/nowhere"}


@on("postgresql", "mysql")
def test_a_database_that_does_not_exist(url: str) -> None:
    """The advice makes it: a file's path has nothing to do with it."""
    words, waits = refused(make_url(url).set(database="no_such").render_as_string(hide_password=False))

    assert words.partition("(")[0].endswith("no_such does not exist. Create it ")
    assert ("CREATE DATABASE no_such" if "mysql" in url else "createdb") in words
    assert not FILE.search(words)
    assert not waits


@on("mysql")
def test_a_wrong_password_and_no_right_to_the_database(account: str) -> None:
    wrong = make_url(account).set(password="s3cret2").render_as_string(hide_password=False)
    words, waits = refused(wrong)
    assert "in with this password. Correct user and password" in words
    assert "error 1045)" in words
    assert not waits and not FILE.search(words)

    words, waits = refused(account)
    assert "may not be used by the user someone_" in words
    assert "GRANT ALL ON" in words
    assert not waits


@on("postgresql")
def test_no_right_to_the_database(account: str, url: str) -> None:
    """A start would have waited for it in vain."""
    name = make_url(url).database
    with opened(url) as database, database.engine.connect() as connection:
        connection.exec_driver_sql(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")

    words, waits = refused(account)

    assert f"GRANT CONNECT ON DATABASE {name} TO" in words
    assert not waits


@pytest.mark.postgresql
@pytest.mark.ci
def test_a_server_that_asks_for_passwords() -> None:
    """The machine's own lets everyone in."""
    with servers.server("postgresql") as server:
        assert isinstance(server, servers.PostgreSQL)
        server.execute("CREATE ROLE someone LOGIN PASSWORD 's3cret'", "CREATE DATABASE closed")
        server.let_in(
            "host all postgres 127.0.0.1/32 trust",
            "host closed all 127.0.0.1/32 reject",
            "hostssl all nobody 127.0.0.1/32 trust",
            "host all all 127.0.0.1/32 scram-sha-256",
        )
        place = f"127.0.0.1:{server.port}"
        for url, wrong in (
            (f"someone:s3cret2@{place}/postgres", "does not let the user someone in with this password"),
            (f"someone@{place}/postgres", "does not let the user someone in with this password"),
            (f"someone:s3cret@{place}/closed", "refuses connections of the user someone from this host"),
            (f"someone:s3cret@{place}/postgres?sslmode=require", "do not agree on encryption"),
            (f"someone:s3cret@{place}/no_such", "does not exist"),
        ):
            words, waits = refused(f"postgresql://{url}")

            assert f" {wrong}. " in words
            assert not waits and not FILE.search(words)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_parameters_of_the_url(kind: str) -> None:
    """A misspelt one is named, and the nearest; so is a file that is not there."""
    url = f"{kind}+{'psycopg2' if kind == 'postgresql' else 'pymysql'}://someone@127.0.0.1/placement"

    words, _ = refused(f"{url}?conect_timeout=3")
    assert words == (
        "[placement_database]/connection has the parameter conect_timeout, which its driver does not know;"
        " did you mean connect_timeout?"
    )
    if kind == "mysql":
        words, _ = refused(f"{url}?ssl_ca=/nowhere/ca.pem")
        option = "[placement_database]/connection"
        assert words == f"/nowhere/ca.pem, which {option} names as ssl_ca, cannot be read."


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("postgres://placement@db/placement", "it begins with postgres, which is not a kind of database"),
        ("postgresql+nosuch://placement@db/placement", "it begins with postgresql.nosuch"),
        ("nonsense", "it cannot be parsed"),
        ("sqlite://three/slashes", "do not fit the driver"),
        ("postgresql+asyncpg://placement@db/placement", "asyncpg, is not installed. The service supports"),
    ],
)
def test_what_is_not_the_url_of_a_database(url: str, wrong: str) -> None:
    assert wrong in refused(url)[0]


def test_files_of_sqlite(tmp_path: Path) -> None:
    other = tmp_path / "placement.conf"
    other.write_text("[placement_database]\n" * 100)

    assert "is another kind of file. Correct the path" in refused(f"sqlite:///{other}")[0]
    words, waits = refused(f"sqlite:///{tmp_path}/nowhere/placement.db")
    assert "cannot be opened. Check the path of the file" in words
    assert not waits and "password" not in words


@pytest.mark.parametrize("kind", refusals.KINDS, ids=lambda kind: kind.wrong)
def test_each_advice_can_be_filled_in(kind: refusals.Refusal) -> None:
    names = {"user": "someone", "database": "placement", "option": refusals.OPTION}
    advised = [kind.advice] if isinstance(kind.advice, str) else kind.advice.values()
    for text in (kind.wrong, *advised):
        assert not set("{}") & set(text.format(**names))


def test_a_connection_that_breaks_under_encryption_is_waited_for() -> None:
    """Not every text that names SSL is about certificates."""
    for text in ("SSL connection has been closed unexpectedly", "SSL SYSCALL error: EOF detected"):
        error = exc.OperationalError(None, None, Exception(text))  # type: ignore[arg-type]
        assert refusals.passes(error)
