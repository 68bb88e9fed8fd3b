"""The service works in whatever sql_mode MariaDB or MySQL, or the operator, has chosen."""

from urllib.parse import quote

import pytest

from placement.db import schema
from tests.support.databases import opened, scratch_route
from tests.support.service import Service, configure

HOST = "10000000-0000-4000-8000-000000000001"
CONSUMER = "20000000-0000-4000-8000-000000000001"
NAME = """it's a "host" \\ 100 % `sure` || more"""
CLAIM = {
    "allocations": {HOST: {"resources": {"VCPU": 1}}},
    "project_id": "it's \\",
    "user_id": "100 %",
    "consumer_generation": None,
    "consumer_type": "INSTANCE",
}


@pytest.mark.mysql
@pytest.mark.parametrize(
    ("route", "servers", "configured"),
    [
        ("pymysql", "ANSI_QUOTES", "TRADITIONAL"),
        ("mysqlclient", "ANSI_QUOTES", "TRADITIONAL"),
        ("pymysql", "ORACLE", ""),
        ("pymysql", "", "ANSI,NO_BACKSLASH_ESCAPES"),
    ],
)
def test_a_claim_in_every_mode(route: str, servers: str, configured: str) -> None:
    """From an empty database on."""
    first = quote(f"SET SESSION sql_mode = '{servers}'")
    with (
        scratch_route(route) as url,
        opened(f"{url}?init_command={first}", mysql_sql_mode=configured) as database,
    ):
        schema.sync(database)
        service = Service(configure(), database)

        def done(method: str, path: str, body: object) -> bool:
            answer = service.request(method, path, json=body, version="1.39")
            return answer.status_int < 300

        assert done("POST", "/resource_providers", {"uuid": HOST, "name": NAME})
        stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1}}}
        assert done("PUT", f"/resource_providers/{HOST}/inventories", stock)
        assert done("PUT", f"/allocations/{CONSUMER}", CLAIM)
        found = service.request("GET", f"/allocations/{CONSUMER}", version="1.39").json
        named = service.request("GET", f"/resource_providers?uuid={HOST}", version="1.39").json

    assert (found["project_id"], found["user_id"]) == (CLAIM["project_id"], CLAIM["user_id"])
    assert named["resource_providers"][0]["name"] == NAME
    assert found["allocations"][HOST]["resources"] == {"VCPU": 1}
