"""Names of any character, or 400: whatever the character set of the database and what its URL says."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

import pytest
import sqlalchemy

from placement.db import schema
from tests.support import bodies
from tests.support.client import Answer
from tests.support.databases import ROUTES, opened, scratch_database
from tests.support.service import Service, configure
from tests.support.world import World, new_uuid

NAMES = ("é", "日本", "😀 party")

NARROW = tuple(
    f"ALTER TABLE {table} MODIFY {column} VARCHAR(200) CHARACTER SET latin1"
    for table, column in (
        ("resource_providers", "name"),
        ("projects", "external_id"),
        ("users", "external_id"),
    )
)


@contextmanager
def service_on(
    route: str, parameters: str = "", character_set: str = "", altered: Sequence[str] = ()
) -> Iterator[Service]:
    """A service whose database has this character set, or one of whose tables was altered."""
    kind, driver = ROUTES[route]
    # PostgreSQL copies no database into another encoding.
    revision = None if kind == "postgresql" and character_set else schema.HEAD
    with scratch_database(kind, revision, character_set=character_set) as made:
        url = sqlalchemy.make_url(made).set(drivername=driver).update_query_string(parameters)
        if route.endswith("-alone"):
            url = url.update_query_dict({"multi_statements": "0"})
        with opened(url.render_as_string(hide_password=False), mysql_sql_mode="") as database:
            schema.sync(database)
            with database.engine.connect() as connection:
                for statement in altered:
                    connection.exec_driver_sql(statement)
            yield Service(configure(), database)


def stored(service: Service, name: str) -> int:
    """Give a provider, a project and a user the name; return the status 200, or 400 if all are refused."""
    host, world = new_uuid(), World(service)
    made = service.send("POST", "/resource_providers", {"uuid": host, "name": name})
    found = service.send("GET", f"/resource_providers?name={quote(name)}")
    assert found.status == made.status
    if made.status == 200:
        assert [each["name"] for each in found.json["resource_providers"]] == [name]
    else:
        refused(made, name)
        world.provider(key=host)
    world.set_inventory(host, {"VCPU": 8})
    for owner in ({"project_id": name}, {"user_id": name}):
        path = f"/allocations/{new_uuid()}"
        written = service.send("PUT", path, bodies.entry({host: {"VCPU": 1}}, **owner))
        read = world.get(path)
        if made.status == 200:
            assert written.status == 204
            assert read.items() >= owner.items()
        else:
            refused(written, name)
            assert read == {"allocations": {}}
    return made.status


def refused(answer: Answer, name: str) -> None:
    """The answer says that this name cannot be stored."""
    assert answer.status == 400, answer
    assert f"cannot store the name {name}:" in answer.detail


@pytest.mark.mysql
@pytest.mark.parametrize("route", ["pymysql", "mysqlclient"])
@pytest.mark.parametrize(
    "parameters", ["charset=gbk", "charset=utf8&use_unicode=0", "charset=latin1"]
)
def test_mariadb_stores_every_name(route: str, parameters: str) -> None:
    """Whatever the default of the database and the character set of the URL."""
    with service_on(route, parameters, "latin1") as service:
        assert [stored(service, name) for name in NAMES] == [200, 200, 200]


@pytest.mark.postgresql
@pytest.mark.parametrize("route", ["postgresql", "postgresql-alone"])
@pytest.mark.parametrize(
    "parameters", ["client_encoding=latin1", "options=-cclient_encoding%3Dlatin1"]
)
def test_postgresql_stores_every_name(route: str, parameters: str) -> None:
    with service_on(route, parameters) as service:
        assert [stored(service, name) for name in NAMES] == [200, 200, 200]


@pytest.mark.postgresql
@pytest.mark.parametrize("route", ["postgresql", "postgresql-alone"])
def test_postgresql_of_another_encoding(route: str) -> None:
    """LATIN1 has no Japanese; SQL_ASCII takes the bytes of everything, but counts bytes."""
    with service_on(route, character_set="LATIN1") as service:
        assert [stored(service, name) for name in NAMES] == [200, 400, 400]
    with service_on(route, character_set="SQL_ASCII") as service:
        assert [stored(service, name) for name in NAMES] == [200, 200, 200]
        longest = "é" * 150
        refused(service.send("POST", "/resource_providers", {"name": longest}), longest)


@pytest.mark.mysql
@pytest.mark.parametrize("route", ["pymysql", "mysqlclient", "pymysql-alone"])
def test_mariadb_with_a_narrow_column(route: str) -> None:
    """A name that it cannot hold is never stored with question marks instead, in any mode of the server."""
    lax = quote("SET SESSION sql_mode = ''")
    with service_on(route, f"init_command={lax}", altered=NARROW) as service:
        assert [stored(service, name) for name in NAMES] == [200, 400, 400]
