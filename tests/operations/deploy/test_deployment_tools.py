"""What Kolla, DevStack, Puppet and OpenStack-Ansible do, step by step, from docs/howto/deployment-tools.rst.

They find MariaDB and a real Keystone, and uWSGI or Apache serves. The steps that install are taken in the
long mode; else the tools find what runs the tests.
"""

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import pytest

from tests.operations.deploy.test_servers import PROXY, mod_wsgi_path
from tests.operations.package.test_constraints import constraints
from tests.support.client import VERSION, Answer, Client
from tests.support.databases import scratch_database
from tests.support.deployment import PROGRAMS, ROOT
from tests.support.keystone import PASSWORD, Keystone
from tests.support.old_service import OldService
from tests.support.processes import free_port, ran
from tests.support.steps import Stage, steps
from tests.support.world import World, new_uuid

pytestmark = [pytest.mark.deploy, pytest.mark.mysql, pytest.mark.xdist_group("keystone")]

PAGE = (ROOT / "docs/howto/deployment-tools.rst").read_text()
KOLLA = "Kolla and kolla-ansible"
OLD_HEAD = "a082b8bb98d0"
SHOWN_DATABASE = "mysql+pymysql://placement:secret@db.example.org:3306/placement"
INSTALLS = ("python3 -m pip install ",)
BUILT = pytest.mark.parametrize(
    "release", ["", pytest.param("2025.1", marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
"""The constraints under which the tool installs; none: it does not."""


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a MariaDB database: empty, or at the revision of the parameter."""
    with scratch_database("mysql", getattr(request, "param", None)) as url:
        yield url


@pytest.fixture
def stage(folder: Path, database: str, keystone: Keystone) -> Iterator[Stage]:
    """A machine without anything, on which the commands of the service are those of this environment."""
    # Where the commands look that do not read OS_PLACEMENT_CONFIG_DIR, before /etc/placement.
    (folder / ".placement").symlink_to(folder / "etc/placement")
    environment = {
        "HOME": str(folder),
        "PATH": os.pathsep.join([str(PROGRAMS), os.environ["PATH"]]),
        "OS_PLACEMENT_CONFIG_DIR": f"{folder}/etc/placement",
        "PYTHONWARNINGS": "ignore",
    }
    words = {
        SHOWN_DATABASE: database,
        "http://identity.example.org:5000": keystone.url,
        "password = secret": f"password = {PASSWORD}",
        "127.0.0.1:8780": f"127.0.0.1:{free_port()}",
        # Nobody listens there: the identity service is asked about each token.
        "memcached.example.org:11211": f"127.0.0.1:{free_port()}",
        "redis.example.org:6379": f"127.0.0.1:{free_port()}",
        # Sixteen processes would be too many beside the other tests.
        "processes = 16": "processes = 3",
    }
    made = Stage(PAGE, folder, environment, ("/etc", "/var", "/opt"), words, INSTALLS)
    with made.server:
        yield made


def source(folder: Path) -> Path:
    """Copy what is in the repository, as of now, as a repository of its own, but for the tests."""
    folder.mkdir(parents=True)
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", ":!tests"]
    names = subprocess.run(listed, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    git = ["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "All"]):
        subprocess.run([*git, *words], check=True)
    return folder


def install(stage: Stage, release: str, place: str) -> None:
    """Let the tool install, under the constraints of a release that are at ``place``, where it does.

    The tool's environment has the driver of the database and osprofiler. uWSGI is that of the tests.
    """
    if not release:
        return
    here = stage.folder / place.lstrip("/")
    here.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(constraints(release), here)
    virtual = stage.folder / "opt/environment"
    subprocess.run([sys.executable, "-m", "venv", virtual], check=True)
    stage.left_out, stage.forks = (), False
    stage.environment = {
        **stage.environment,
        "PATH": os.pathsep.join([f"{virtual}/bin", stage.environment["PATH"]]),
        "UWSGI_HOME": str(virtual),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    stage.run(f"python3 -m pip install --quiet --constraint {here} PyMySQL osprofiler")


@dataclass
class Nova:
    """A client with a token of the identity service, and the host on which it claims.

    :param shown_url: of the service, as on the page.
    :param claimed: units of the host; nobody else claims any more.
    """

    keystone: Keystone
    stage: Stage
    shown_url: str
    claimed: int = 0
    host: str = ""

    def send(
        self, method: str, path: str, body: Any = None, version: str = VERSION, **more: str | None
    ) -> Answer:
        """Send a request with the token of the administrator."""
        token = self.keystone.admin_token
        client = Client(self.stage.here(self.shown_url), kept=False)
        return client.send(method, path, body, version, x_auth_token=token, x_roles=None, **more)

    def claim(self) -> None:
        """Claim one unit, on a host that is made for the first claim."""
        world = World(self)
        self.host = self.host or world.host(VCPU=100)
        world.call("PUT", f"/allocations/{new_uuid()}", allocation(self.host))
        self.claimed += 1
        usages = world.get(f"/resource_providers/{self.host}/usages")["usages"]
        assert usages == {"VCPU": self.claimed}

    def is_refused_without_a_token(self) -> bool:
        """Say whether the identity service is asked at all."""
        url = self.stage.here(self.shown_url)
        return Client(url, kept=False).send("GET", "/traits", x_auth_token=None).status == 401


def allocation(host: str) -> dict[str, Any]:
    return {
        "allocations": {host: {"resources": {"VCPU": 1}}},
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
        "project_id": "demo",
        "user_id": "alice",
    }


def check_served(nova: Nova, warned: bool = False) -> None:
    """Claims are granted, and nothing is without a token; the database is as it should be.

    :param warned: the upgrade check tells of the OpenStack service, which wrote as well.
    """
    assert nova.is_refused_without_a_token()
    nova.claim()
    nova.claim()
    nova.stage.run("placement-manage db check")
    checked = nova.stage.ran("placement-status upgrade check")
    assert checked.returncode == int(warned), checked.stdout
    assert ("Another service has written" in checked.stdout) == warned


def build_kolla(stage: Stage, release: str = "") -> None:
    """Take Kolla's steps up to the rendered configuration, which its check accepts."""
    stage.roots = ("/placement", "/requirements", *stage.roots)
    source(stage.folder / "placement")
    install(stage, release, "/requirements/upper-constraints.txt")
    stage.take(KOLLA, "Build")
    assert (stage.folder / "etc/placement/config-generator.conf").exists()
    stage.take(KOLLA, "Configuration")


@BUILT
def test_kolla(stage: Stage, keystone: Keystone, release: str) -> None:
    """The image is built, the cloud deployed, and upgraded while it serves."""
    build_kolla(stage, release)
    for each in ("First deployment", "Service"):
        stage.take(KOLLA, each)
    nova = Nova(keystone, stage, "http://127.0.0.1:8780")
    check_served(nova)

    stage.take(KOLLA, "Upgrade", between=nova.claim)
    assert nova.claimed == 6
    check_served(nova)
    log = (stage.folder / "var/log/kolla/placement/placement-api.log").read_text()
    assert "starts." in log
    # The profiler finds no driver for Redis, which is in Kolla's image.
    assert not [line for line in log.splitlines() if "Traceback" in line and "osprofiler" not in line]


@pytest.mark.parametrize("database", [OLD_HEAD], indirect=True)
def test_kolla_takes_over(stage: Stage, keystone: Keystone, database: str) -> None:
    """The old containers claim before, during and after the bootstrap, and so do the new ones at last."""
    old = OldService(database)
    host = new_uuid()
    old.create_class("VCPU")
    old.create_provider(host, "host")
    old.set_inventory(host, {"VCPU": {"total": 100}})
    build_kolla(stage)

    claims = 0

    def claim_on_the_old() -> None:
        nonlocal claims
        old.claim(new_uuid(), {host: {"VCPU": 1}})
        claims += 1

    claim_on_the_old()
    stage.take(KOLLA, "Upgrade", between=claim_on_the_old)
    old.dispose()
    # One before, one for each command, and none until the server answers.
    assert claims == len(steps(PAGE, KOLLA, "Upgrade"))
    check_served(Nova(keystone, stage, "http://127.0.0.1:8780", claims, host), warned=True)


def test_kolla_with_tls(stage: Stage) -> None:
    """``ssl_ca`` reaches the driver: a server that speaks no TLS is refused."""
    connection = stage.words[SHOWN_DATABASE]
    stage.words[SHOWN_DATABASE] = f"{connection}?ssl_ca={certifi.where()}"
    build_kolla(stage)
    done = stage.ran("placement-manage config check")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert "SSL is required" in line


def test_devstack(stage: Stage, keystone: Keystone) -> None:
    stage.modules = PROXY
    stage.take("DevStack", "Steps")
    check_served(Nova(keystone, stage, "http://127.0.0.1/placement"))
    log = (stage.folder / "uwsgi.log").read_text()
    assert "starts." in log
    assert "Logging error" not in log


def test_puppet(stage: Stage, keystone: Keystone) -> None:
    """The copied file serves, wherever it stands and whatever its name is."""
    stage.roots = ("/etc", "/usr/lib/cgi-bin")
    stage.modules = ("wsgi", "alias")
    stage.words |= {
        "/usr/lib/python3/dist-packages": str(ROOT),
        # Like a user that ``adduser --system`` makes it has no home. The packages are not the system's.
        "user=placement group=placement": f"user=nobody group=nogroup home=/ {mod_wsgi_path()}",
    }
    stage.take("Puppet", "Steps")
    check_served(Nova(keystone, stage, "http://127.0.0.1/placement"))


@BUILT
def test_openstack_ansible(stage: Stage, keystone: Keystone, release: str) -> None:
    if release:
        source(stage.folder / "origin")
    stage.words["git+https://git.example.org/placement"] = f"git+file://{stage.folder}/origin"
    install(stage, release, "/opt/upper-constraints.txt")
    stage.take("OpenStack-Ansible", "Steps")
    check_served(Nova(keystone, stage, "http://127.0.0.1:8780"))


@pytest.mark.timeout(900)
def test_pip_refuses_another_name(tmp_path: Path) -> None:
    """That is why a variable of OpenStack-Ansible has to be overridden: the page has our name."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    name = config["metadata"]["name"]
    assert set(re.findall(r"^[^`]*@.*#egg=([\w-]+)", PAGE, re.M)) == {name}

    origin = source(tmp_path / "origin")
    asked = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-build-isolation"]
    # Else pip would look for the other name in the index.
    asked.append("--no-index")
    for given, code in ((name, 0), ("openstack-placement", 1)):
        url = f"git+file://{origin}@main#egg={given}"
        command = [*asked, "--quiet", "--dest", str(tmp_path / given), url]
        done = ran(command)
        assert done.returncode == code, done.stderr
    assert "produced metadata for project name" in done.stderr
