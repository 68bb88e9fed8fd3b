"""MySQL Router on an API machine, before a group of MySQL servers.

It is bootstrapped as operators do it, from metadata in the group. MySQL Shell writes those, which Debian does
not have: the tables here have what the Router of MySQL 9.7 reads and writes. ``tools/fetch mysql-router``
unpacks it.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.proofs.galera.balanced import Chooser
from tests.support.fetched import folder_of
from tests.support.innodb_cluster import GROUP, Group
from tests.support.network import Machine
from tests.support.processes import Process, free_port, ran

DATABASE = "mysql_innodb_cluster_metadata"
CLUSTER = "9a8b7c6d-0000-4000-8000-706c6163656d"

TABLES = {
    "clusters": "cluster_id CHAR(36) PRIMARY KEY, cluster_name TEXT, cluster_type TEXT, group_name TEXT, "
    "clusterset_id TEXT, attributes JSON, router_options JSON",
    "instances": "instance_id INT PRIMARY KEY, cluster_id CHAR(36), label TEXT, "
    "mysql_server_uuid TEXT, address TEXT, endpoint TEXT, xendpoint TEXT, attributes JSON",
    "routers": "router_id INT PRIMARY KEY AUTO_INCREMENT, router_name VARCHAR(255), address VARCHAR(255), "
    "product_name TEXT, version TEXT, last_check_in TIMESTAMP NULL, attributes JSON, options JSON, "
    "cluster_id TEXT, clusterset_id TEXT, router_options JSON, UNIQUE KEY (address, router_name)",
    "router_rest_accounts": "cluster_id CHAR(36) PRIMARY KEY, user TEXT, authentication_method TEXT, "
    "authentication_string TEXT, privileges JSON",
    "router_stats": "router_id INT PRIMARY KEY, last_check_in TIMESTAMP",
    "routing_guidelines": "guideline_id CHAR(36) PRIMARY KEY, guideline JSON",
    "clustersets": "clusterset_id CHAR(36) PRIMARY KEY, domain_name TEXT, view_id INT, router_options JSON",
    "cs_members": "cluster_id CHAR(36) PRIMARY KEY, clusterset_id TEXT, member_role TEXT, view_id INT, "
    "invalidated INT",
}
VIEWS = {
    "schema_version": "SELECT 2 AS major, 3 AS minor, 0 AS patch",
    "v2_clusters": "SELECT * FROM clusters",
    "v2_gr_clusters": "SELECT * FROM clusters",
    "v2_ar_clusters": "SELECT * FROM clusters WHERE cluster_type = 'ar'",
    "v2_instances": "SELECT * FROM instances",
    "v2_this_instance": "SELECT i.instance_id, cluster_id, c.cluster_name, c.cluster_type "
    "FROM instances i JOIN clusters c USING (cluster_id) WHERE i.mysql_server_uuid = (SELECT variable_value "
    "FROM performance_schema.global_variables WHERE variable_name = 'server_uuid')",
    "v2_routers": "SELECT * FROM routers",
    "v2_router_options": "SELECT * FROM routers",
    "v2_router_rest_accounts": "SELECT * FROM router_rest_accounts",
    "v2_cs_members": "SELECT * FROM cs_members",
    "v2_cs_clustersets": "SELECT * FROM clustersets",
}


def write_metadata(group: Group) -> None:
    """Describe the group as MySQL Shell does, in a schema of the group."""
    named = f"JSON_OBJECT('group_replication_group_name', '{GROUP}')"
    instances = []
    for number, member in enumerate(group.nodes, 1):
        [[uuid]] = member.execute("SELECT @@server_uuid")
        place = f"{member.machine.address}:{member.port}"
        instances.append(f"({number}, '{CLUSTER}', '{place}', '{uuid}', '{place}', '{place}', NULL, '{{}}')")
    group.create_database(DATABASE)
    group.writer().execute(
        f"USE {DATABASE}",
        *(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()),
        *(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()),
        f"INSERT INTO clusters VALUES ('{CLUSTER}', 'placement', 'gr', '{GROUP}', NULL, {named}, NULL)",
        f"INSERT INTO instances VALUES {', '.join(instances)}",
    )


class Router(Chooser):
    """One MySQL Router; its first port leads to the primary."""

    def __init__(self, machine: Machine, folder: Path, group: Group) -> None:
        self.machine, self.folder, self.port = machine, folder, free_port()
        root = folder_of("mysql-router")
        self.program = f"{root}/usr/bin/mysqlrouter"
        member = group.writer()
        ran(
            [
                self.program,
                *("--bootstrap", f"root@{member.machine.address}:{member.port}"),
                *("--directory", folder / "router", "--name", f"at-{self.port}", "--user=root"),
                *("--conf-bind-address", machine.address, "--conf-base-port", str(self.port)),
                *("--connect-timeout", "2", "--read-timeout", "3"),
                *("--report-host", machine.address, "--disable-rest"),
                *("--conf-set-option", f"DEFAULT.plugin_folder={root}/usr/lib/mysqlrouter/plugin"),
            ],
            check=True,
            # The password of root.
            input="\n",
        )

    def start(self) -> None:
        command = [self.program, "-c", f"{self.folder}/router/mysqlrouter.conf"]
        self.process = Process("router", command, folder=self.folder, machine=self.machine)
        self.process.wait_until("it leads to the primary", self.leads_to_writers)


class Routing:
    """The Router of MySQL chooses."""

    @contextlib.contextmanager
    def prepared(self, cluster: Group, folder: Path) -> Iterator[Callable[[Machine, Path], Router]]:
        """Describe the group where the Routers look."""
        if not folder_of("mysql-router").exists():
            pytest.skip("no MySQL Router was fetched: tools/fetch mysql-router")
        write_metadata(cluster)
        yield lambda machine, home: Router(machine, home, cluster)
