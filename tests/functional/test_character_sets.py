"""Names of any character, or 400: whatever the character set of the database and what its URL says."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

import pytest
import sqlalchemy
from webob import Response

from placement.db import schema
from tests.support.databases import ROUTES, opened, scratch_database
from tests.support.service import Service, configure

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
        url = sqlalchemy.make_url(made).set(drivername=driver)
        text = url.render_as_string(hide_password=False) + parameters
        with opened(text, mysql_sql_mode="") as database:
            schema.sync(database)
            with database.engine.connect() as connection:
                for statement in altered:
                    connection.exec_driver_sql(statement)
            yield Service(configure(), database)


def stored(service: Service, name: str) -> int:
    """Give a provider, a project and a user the name; return the status 200, or 400 if all are refused."""
    host, version = str(uuid.uuid4()), "1.28"
    made = service.request(
        "POST", "/resource_providers", json={"uuid": host, "name": name}, version=version
    )
    found = service.request("GET", f"/resource_providers?name={quote(name)}", version=version)
    assert found.status_int == made.status_int
    if made.status_int == 200:
        assert [each["name"] for each in found.json["resource_providers"]] == [name]
    else:
        refused(made, name)
        other = {"uuid": host, "name": f"plain {host}"}
        assert service.request("POST", "/resource_providers", json=other).status_int == 201
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    service.request("PUT", f"/resource_providers/{host}/inventories", json=stock, version=version)
    for project, user in ((name, "user"), ("project", name)):
        path = f"/allocations/{uuid.uuid4()}"
        claim = {
            "allocations": {host: {"resources": {"VCPU": 1}}},
            "project_id": project,
            "user_id": user,
            "consumer_generation": None,
        }
        written = service.request("PUT", path, json=claim, version=version)
        read = service.request("GET", path, version=version).json
        if made.status_int == 200:
            assert written.status_int == 204
            assert (read["project_id"], read["user_id"]) == (project, user)
        else:
            refused(written, name)
            assert read == {"allocations": {}}
    return int(made.status_int)


def refused(answer: Response, name: str) -> None:
    """The answer says that this name cannot be stored."""
    assert answer.status_int == 400, answer.text
    (error,) = answer.json["errors"]
    assert f"cannot store the name {name}:" in error["detail"]


@pytest.mark.mysql
@pytest.mark.parametrize("route", ["pymysql", "mysqlclient"])
@pytest.mark.parametrize(
    "parameters", ["charset=gbk", "charset=utf8&use_unicode=0", "charset=latin1"]
)
def test_mariadb_stores_every_name(route: str, parameters: str) -> None:
    """Whatever the default of the database and the character set of the URL."""
    with service_on(route, f"?{parameters}", "latin1") as service:
        assert [stored(service, name) for name in NAMES] == [200, 200, 200]


@pytest.mark.postgresql
@pytest.mark.parametrize("route", ["postgresql", "postgresql-alone"])
@pytest.mark.parametrize(
    "parameters", ["client_encoding=latin1", "options=-cclient_encoding%3Dlatin1"]
)
def test_postgresql_stores_every_name(route: str, parameters: str) -> None:
    with service_on(route, f"?{parameters}") as service:
        assert [stored(service, name) for name in NAMES] == [200, 200, 200]


@pytest.mark.postgresql
@pytest.mark.parametrize("route", ["postgresql", "postgresql-alone"])
def test_postgresql_of_another_encoding(route: str) -> None:
    """LATIN1 has no Japanese; SQL_ASCII takes the bytes of everything, but counts bytes."""
    alone = "?multi_statements=0" if route.endswith("-alone") else ""
    with service_on(route, alone, "LATIN1") as service:
        assert [stored(service, name) for name in NAMES] == [200, 400, 400]
    with service_on(route, alone, "SQL_ASCII") as service:
        assert [stored(service, name) for name in NAMES] == [200, 200, 200]
        longest = {"name": "é" * 150}
        refused(
            service.request("POST", "/resource_providers", json=longest, version="1.28"),
            longest["name"],
        )


@pytest.mark.mysql
@pytest.mark.parametrize("route", ["pymysql", "mysqlclient", "pymysql-alone"])
def test_mariadb_with_a_narrow_column(route: str) -> None:
    """A name that it cannot hold is never stored with question marks instead, in any mode of the server."""
    alone = "multi_statements=0&" if route.endswith("-alone") else ""
    lax = quote("SET SESSION sql_mode = ''")
    with service_on(route, f"?{alone}init_command={lax}", altered=NARROW) as service:
        assert [stored(service, name) for name in NAMES] == [200, 400, 400]
