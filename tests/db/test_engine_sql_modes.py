"""The service works in whatever sql_mode MariaDB or MySQL, or the operator, has chosen."""

from urllib.parse import quote

import pytest

from placement.db import schema
from tests.support.databases import opened, require_mariadb, scratch_route
from tests.support.service import Service, configure
from tests.support.world import World

NAME = """it's a "host" \\ 100 % `sure` || more"""
OWNER = {"project_id": "it's \\", "user_id": "100 %"}


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
    if servers == "ORACLE":
        require_mariadb("a mode called ORACLE")
    first = quote(f"SET SESSION sql_mode = '{servers}'")
    with (
        scratch_route(route) as url,
        opened(f"{url}?init_command={first}", mysql_sql_mode=configured) as database,
    ):
        schema.sync(database)
        world = World(Service(configure(), database))
        host = world.provider(NAME, inventory={"VCPU": 1})
        consumer = world.claim({host: {"VCPU": 1}}, **OWNER)
        found = world.get(f"/allocations/{consumer}")
        named = world.get(f"/resource_providers?uuid={host}")

    assert found.items() >= OWNER.items()
    assert named["resource_providers"][0]["name"] == NAME
    assert found["allocations"][host]["resources"] == {"VCPU": 1}
