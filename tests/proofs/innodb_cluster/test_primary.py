"""A group with one primary, whose members the URL names: where writes go, and when the primary changes."""

from collections.abc import Iterator

import pytest
from sqlalchemy import exc, text

from placement import advice, errors, wsgi
from placement.db import schema
from placement.db.database import Database, Transaction
from tests.support.cluster_arena import PATIENCE, rotated
from tests.support.clusters import url_of
from tests.support.databases import opened
from tests.support.innodb_cluster import Group
from tests.support.service import configure

DATABASE = "primary_of_a_group"


def add_one(tx: Transaction) -> None:
    tx.connection.execute(text("UPDATE t SET n = n + 1"))


def number(db: Database) -> int:
    return int(db.read(lambda reader: reader.connection.scalar(text("SELECT n FROM t"))))


@pytest.fixture
def database(group: Group) -> Iterator[Database]:
    """A database of one row, whose URL names two members before the primary."""
    group.create_database(DATABASE)
    group.writer().execute(
        f"CREATE TABLE {DATABASE}.t (n INT PRIMARY KEY)", f"INSERT INTO {DATABASE}.t VALUES (0)"
    )
    with opened(url_of(rotated(group.nodes, 1), DATABASE, PATIENCE)) as made:
        yield made


def test_a_connection_goes_to_the_primary(database: Database) -> None:
    database.write(add_one)

    assert number(database) == 1


def test_writes_follow_the_primary(group: Group, database: Database) -> None:
    """Pooled connections to the old one still work, and every write over them is refused with 1290."""
    database.write(add_one)
    for place in (1, 2, 0):
        group.make_primary(group.nodes[place])

        database.write(add_one)

    assert number(database) == 4


def test_a_primary_that_is_killed_is_left(group: Group, database: Database) -> None:
    database.write(add_one)
    victim = group.writer()
    victim.kill()
    try:
        victim.wait_given_up()
        database.write(add_one)
        assert number(database) == 2
    finally:
        victim.rejoin()


def test_reads_are_answered_while_there_is_no_primary(group: Group, database: Database) -> None:
    """Writes are told why, commands find no server; all is well with the next primary."""
    database.write(add_one)
    primary = group.writer()
    primary.execute("SET GLOBAL super_read_only = ON")
    url = url_of(rotated(group.nodes, 1), DATABASE, PATIENCE)
    try:
        with pytest.raises(errors.DatabaseReadOnly):
            database.write(add_one)
        assert number(database) == 1
        with opened(url, patient=True) as command, pytest.raises(errors.DatabaseUnavailable):
            number(command)
    finally:
        primary.execute("SET GLOBAL read_only = OFF")
    database.write(add_one)

    assert number(database) == 2


def test_a_group_that_refuses_cascades_is_named_at_the_start(group: Group) -> None:
    """With several primaries MySQL refuses each write to a table whose foreign key cascades (3098)."""
    group.create_database(DATABASE)
    url = url_of(group.nodes, DATABASE, PATIENCE)
    conf = configure(placement_database__connection=url)
    with opened(url) as db:
        schema.sync(db)
        wsgi.examine(db)
        group.nodes[0].execute("SELECT group_replication_switch_to_multi_primary_mode()")
        try:
            with pytest.raises(exc.DBAPIError) as refusal:
                wsgi.examine(db)
        finally:
            uuid = group.nodes[0].execute("SELECT @@server_uuid")[0][0]
            group.nodes[0].execute(f"SELECT group_replication_switch_to_single_primary_mode('{uuid}')")
    words = advice.explain(refusal.value, conf)
    assert words is not None
    assert "several primaries" in words
    assert "group_replication_switch_to_single_primary_mode" in words
