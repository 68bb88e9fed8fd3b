"""Starts what a cloud consists of, each as a process of its own, on databases that are dropped at its end.

MariaDB is that of the other tests (PLACEMENT_TEST_MYSQL); RabbitMQ is the one of the machine, with a virtual
host for this cloud. Nova and Glance are in ``.venv-cloud``, or where PLACEMENT_TEST_CLOUD says
(``.ci/install``).
"""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keystoneauth1 import adapter, session
from keystoneauth1.identity.v3 import Password
from sqlalchemy import create_engine, make_url, text

from tests.operations.cloud.network import no_networks
from tests.support import deployment
from tests.support.keystone import PASSWORD, Keystone, running_keystone
from tests.support.processes import (
    Process,
    answers,
    free_port,
    lacking,
    public_folder,
    ran,
    wait_until,
)

ROOT = Path(__file__).resolve().parents[3]
HOSTS = 4
ACCOUNTS = ("glance", "nova", "neutron")

ACCOUNT = """
auth_url = {identity}
auth_type = password
username = {name}
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
region_name = RegionOne
"""

NOVA = """\
[DEFAULT]
compute_driver = small_host.Host
my_ip = 127.0.0.1
state_path = {folder}
transport_url = {queue}
use_stderr = true
shelved_offload_time = -1
initial_cpu_allocation_ratio = 1.0
initial_ram_allocation_ratio = 1.0
allow_resize_to_same_host = false
report_interval = 2
service_down_time = 10
update_resources_interval = 20
[api_database]
connection = {api_database}
[database]
connection = {database}
[oslo_concurrency]
lock_path = {folder}/locks
[oslo_messaging_notifications]
driver = noop
[quota]
driver = nova.quota.NoopQuotaDriver
[conductor]
workers = 1
[scheduler]
workers = 1
[vnc]
enabled = false
[keystone_authtoken]
www_authenticate_uri = {identity}
{account}
[placement]
{account}
[service_user]
send_service_user_token = true
{account}
[neutron]
{account}
[glance]
region_name = RegionOne
"""

GLANCE = """\
[DEFAULT]
enabled_backends = files:file
[database]
connection = {database}
[keystone_authtoken]
www_authenticate_uri = {identity}
{account}
[paste_deploy]
flavor = keystone
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {folder}/images
[oslo_concurrency]
lock_path = {folder}
"""

PLACEMENT = """
[insight]
enabled = true
claims = true
history_days = 30
[keystone_authtoken]
www_authenticate_uri = {identity}
service_token_roles_required = true
{account}
"""

SERVER = """\
wsgi_app = "{application}"
bind = "127.0.0.1:{port}"
workers = 1
threads = 8
control_socket_disable = True
"""


def programs() -> Path:
    """Return the bin directory of the environment that has Nova and Glance; skip, or fail in CI, if none."""
    named = os.environ.get("PLACEMENT_TEST_CLOUD")
    place = Path(named) if named else ROOT / ".venv-cloud"
    if not ((place / "bin/nova-compute").exists() and (place / "bin/glance-manage").exists()):
        lacking("nova and glance in .venv-cloud")
    return place / "bin"


@dataclass
class Running:
    """A cloud that runs.

    ``environment``: of a command of its administrator. ``computes``: the process of each host.
    """

    folder: Path
    keystone: Keystone
    placement: deployment.Site
    session: session.Session
    environment: dict[str, str]
    nova_database: str
    computes: dict[str, Process] = field(default_factory=dict)
    start_compute: Any = None

    def of(self, service: str) -> Any:
        """Return the adapter of a service for the administrator."""
        return adapter.Adapter(self.session, service_type=service, region_name="RegionOne")


@contextlib.contextmanager
def running_cloud(hosts: int = HOSTS) -> Iterator[Running]:
    """Start a cloud of so many hosts; end all of it, and drop what it has stored."""
    bin_folder = programs()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(public_folder("placement-cloud-"))
        keystone = stack.enter_context(running_keystone())
        databases = stack.enter_context(
            _databases("nova_api", "nova_cell0", "nova", "glance", "placement")
        )
        queue = stack.enter_context(_queue())
        project = keystone.create_project("service")
        for name in ACCOUNTS:
            keystone.create_user(name, {project: "admin"})
            user = keystone.call("GET", f"/users?name={name}")["users"][0]["id"]
            keystone.call(
                "PUT", f"/projects/{project}/users/{user}/roles/{keystone.role('service')}"
            )
        keystone.create_user("placement", {project: "service"})
        site = stack.enter_context(_placement(folder, keystone, databases["placement"]))
        keystone.create_endpoint("placement", site.url)
        keystone.create_endpoint("network", stack.enter_context(no_networks()))
        images = stack.enter_context(_glance(bin_folder, folder, keystone, databases))
        keystone.create_endpoint("image", images)
        url, configuration = stack.enter_context(
            _nova(bin_folder, folder, keystone, databases, queue)
        )
        keystone.create_endpoint("compute", f"{url}/v2.1")
        environment = _administrator(keystone.url)
        cloud = Running(
            folder, keystone, site, _session(keystone.url), environment, databases["nova"]
        )
        cloud.start_compute = lambda host: stack.enter_context(
            _compute(bin_folder, folder, configuration, host)
        )
        for number in range(1, hosts + 1):
            cloud.computes[f"host{number}"] = cloud.start_compute(f"host{number}")
        services = cloud.of("compute")

        def all_up() -> bool:
            listed = services.get("/os-services?binary=nova-compute").json()["services"]
            return sum(each["state"] == "up" for each in listed) >= hosts

        wait_until("all hosts are up", all_up, 300)
        _run(bin_folder, configuration, "nova-manage", "cell_v2", "discover_hosts")
        yield cloud


def _administrator(identity: str) -> dict[str, str]:
    return {
        "OS_AUTH_TYPE": "password",
        "OS_AUTH_URL": identity,
        "OS_USERNAME": "admin",
        "OS_PASSWORD": PASSWORD,
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": "RegionOne",
        "OS_PLACEMENT_API_VERSION": "1.39",
    }


def _session(identity: str) -> session.Session:
    auth = Password(
        auth_url=identity,
        username="admin",
        password=PASSWORD,
        project_name="admin",
        user_domain_id="default",
        project_domain_id="default",
    )
    return session.Session(auth)


@contextlib.contextmanager
def _databases(*names: str) -> Iterator[dict[str, str]]:
    """Make databases of this cloud; yield their URLs by name, and drop them."""
    given = os.environ.get("PLACEMENT_TEST_MYSQL")
    if given is None:
        lacking("PLACEMENT_TEST_MYSQL")
        raise AssertionError
    mark = f"cloud_{secrets.token_hex(4)}"
    server = make_url(given)
    engine = create_engine(server)
    made = {name: f"{mark}_{name}" for name in names}
    try:
        for database in made.values():
            with engine.begin() as connection:
                connection.execute(text(f"CREATE DATABASE {database} CHARACTER SET utf8mb4"))
        yield {
            name: server.set(drivername="mysql+pymysql", database=database).render_as_string(
                hide_password=False
            )
            for name, database in made.items()
        }
    finally:
        for database in made.values():
            with engine.begin() as connection:
                connection.execute(text(f"DROP DATABASE IF EXISTS {database}"))
        engine.dispose()


@contextlib.contextmanager
def _queue() -> Iterator[str]:
    """Make a virtual host of RabbitMQ; yield its URL, and drop it."""
    name = f"cloud-{secrets.token_hex(4)}"
    if ran(["sh", "-c", "command -v rabbitmqctl"]).returncode:
        lacking("the program rabbitmqctl")
    ran(["rabbitmqctl", "add_vhost", name], check=True)
    try:
        ran(["rabbitmqctl", "set_permissions", "-p", name, "guest", ".*", ".*", ".*"], check=True)
        yield f"rabbit://guest:guest@127.0.0.1:5672/{name}"
    finally:
        ran(["rabbitmqctl", "delete_vhost", name])


def _account(name: str, identity: str) -> str:
    return ACCOUNT.format(name=name, identity=identity, password=PASSWORD)


@contextlib.contextmanager
def _placement(folder: Path, keystone: Keystone, database: str) -> Iterator[deployment.Site]:
    own = folder / "placement"
    own.mkdir()
    account = _account("placement", keystone.url)
    more = PLACEMENT.format(identity=keystone.url, account=account)
    environment = deployment.prepare(own, database, more, auth="keystone")
    with deployment.gunicorn(own, environment, http=True, workers=2) as site:
        yield site


@contextlib.contextmanager
def _glance(
    bin_folder: Path, folder: Path, keystone: Keystone, databases: Mapping[str, str]
) -> Iterator[str]:
    own = folder / "glance"
    (own / "images").mkdir(parents=True)
    account = _account("glance", keystone.url)
    settings = GLANCE.format(
        folder=own, database=databases["glance"], identity=keystone.url, account=account
    )
    (own / "glance-api.conf").write_text(settings)
    shipped = bin_folder.parent / "etc/glance/glance-api-paste.ini"
    (own / "glance-api-paste.ini").write_text(shipped.read_text())
    ran(
        [bin_folder / "glance-manage", "--config-file", own / "glance-api.conf", "db_sync"],
        check=True,
        cwd=own,
        env=_surroundings(),
    )
    with _served(
        bin_folder, own, "glance.wsgi.api:application", {"OS_GLANCE_CONFIG_DIR": str(own)}
    ) as url:
        yield url


@contextlib.contextmanager
def _nova(
    bin_folder: Path, folder: Path, keystone: Keystone, databases: Mapping[str, str], queue: str
) -> Iterator[tuple[str, Path]]:
    """Make Nova's databases and start all but the hosts; yield its URL and the file that configures it."""
    own = folder / "nova"
    (own / "locks").mkdir(parents=True)
    configuration = own / "nova.conf"
    configuration.write_text(
        NOVA.format(
            folder=own,
            queue=queue,
            identity=keystone.url,
            account=_account("nova", keystone.url),
            api_database=databases["nova_api"],
            database=databases["nova"],
        )
    )
    (own / "api-paste.ini").write_text((bin_folder.parent / "etc/nova/api-paste.ini").read_text())
    for words in (
        ("api_db", "sync"),
        ("cell_v2", "map_cell0", "--database_connection", databases["nova_cell0"]),
        ("db", "sync"),
        ("cell_v2", "create_cell", "--name", "cell1"),
    ):
        _run(bin_folder, configuration, "nova-manage", *words)
    with contextlib.ExitStack() as stack:
        for program in ("nova-conductor", "nova-scheduler"):
            command = [bin_folder / program, "--config-file", configuration]
            stack.enter_context(Process(program, command, folder=own, environment=_surroundings()))
        named = {"OS_NOVA_CONFIG_DIR": str(own)}
        url = stack.enter_context(
            _served(bin_folder, own, "nova.wsgi.osapi_compute:application", named)
        )
        yield url, configuration


@contextlib.contextmanager
def _compute(bin_folder: Path, folder: Path, configuration: Path, host: str) -> Iterator[Process]:
    """Start a host; its node keeps its uuid in the folder of the host."""
    own = folder / host
    own.mkdir(exist_ok=True)
    (own / "host.conf").write_text(
        f"[DEFAULT]\nhost = {host}\nstate_path = {own}\n[oslo_concurrency]\nlock_path = {own}\n"
    )
    command = [
        bin_folder / "python",
        Path(__file__).with_name("compute.py"),
        *("--config-file", configuration, "--config-file", own / "host.conf"),
    ]
    with Process(f"compute-{host}", command, folder=own, environment=_surroundings()) as process:
        yield process


@contextlib.contextmanager
def _served(
    bin_folder: Path, folder: Path, application: str, environment: Mapping[str, str]
) -> Iterator[str]:
    """Serve an application of WSGI; yield its URL."""
    port = free_port()
    (folder / "gunicorn.conf.py").write_text(SERVER.format(application=application, port=port))
    url = f"http://127.0.0.1:{port}"
    name = application.partition(".")[0]
    with Process(
        f"{name}-api",
        [bin_folder / "gunicorn"],
        folder=folder,
        environment=_surroundings() | environment,
    ) as it:
        it.wait_until("it answers", lambda: answers(url), 120)
        yield url


def _run(bin_folder: Path, configuration: Path, program: str, *words: str) -> None:
    """Run a command of Nova to its end."""
    command = [bin_folder / program, "--config-file", configuration, *words]
    ran(command, check=True, cwd=configuration.parent, env=os.environ | _surroundings())


def _surroundings() -> dict[str, str]:
    """Return the environment of a process of the cloud, which imports the driver of its hosts from here."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
