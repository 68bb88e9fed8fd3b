"""The Containerfile, step by step, and what compose.yaml starts, in a chroot: no engine is needed."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy
from ruamel.yaml import YAML

from tests.operations.deploy import conversation
from tests.support import client
from tests.support import image as images
from tests.support.databases import scratch_database
from tests.support.deployment import Site
from tests.support.image import Image
from tests.support.processes import ENDS_S, Process, free_port, ran

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

PORT = "8778"
DATABASE = "postgresql://placement:placement@database/placement"


@pytest.fixture(scope="module")
def image(sources: Path, fresh: Path, large: Path) -> Image:
    """The image, built of nothing but what .dockerignore lets through."""
    context = large / "context"
    for line in (sources / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            source, place = sources / line[1:], context / line[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)
    built = images.build((sources / "Containerfile").read_text(), context, fresh, large / "stages")
    (built.root / "etc/hosts").write_text("127.0.0.1 localhost api database\n")
    return built


@dataclass
class Services:
    """What compose.yaml says, with a database and a port of this test in place of its own."""

    image: Image
    described: dict[str, Any]
    sources: Path
    folder: Path
    database: str
    port: int

    def words(self, name: str, command: list[str], **more: str) -> list[str]:
        """Return the words that run a command as this service, restricted as the file says.

        :param more: further variables.
        """
        service = self.described[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        environment = {
            variable: value.replace(DATABASE, self.database)
            for variable, value in service["environment"].items()
        }
        assert environment != service["environment"]
        volumes = {}
        for volume in service["volumes"]:
            source, target, mode = volume.split(":")
            assert mode == "ro"
            volumes[target] = self.sources / source
        command = [word.replace(f":{PORT}", f":{self.port}") for word in command]
        return self.image.words(command, {**environment, **more}, volumes)

    def run(
        self, name: str, command: list[str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run the service, or another command in its place, to its end."""
        return ran(
            self.words(name, command or self.described[name]["command"]),
            stdin=subprocess.DEVNULL,
        )

    def healthy(self, name: str) -> bool:
        """Ask as the image's health check does."""
        return self.run(name, self.image.health).returncode == 0

    @contextlib.contextmanager
    def started(self, name: str, **more: str) -> Iterator[Process]:
        """Start a service that stays, and wait until it is healthy."""
        words = self.words(name, self.image.command, **more)
        with Process(name, words, folder=self.folder) as process:
            yield process.wait_until("it is healthy", lambda: self.healthy(name), 120)


@pytest.fixture
def services(image: Image, sources: Path, large: Path) -> Iterator[Services]:
    """The services of compose.yaml, none of them started, on an empty PostgreSQL database."""
    described = YAML(typ="safe").load(sources / "compose.yaml")["services"]
    with scratch_database("postgresql") as url:
        plain = sqlalchemy.make_url(url).set(drivername="postgresql", host="database")
        yield Services(
            *(image, described, sources, large),
            *(plain.render_as_string(hide_password=False), free_port()),
        )


def test_the_compose_file_fits_together(services: Services) -> None:
    """Each service waits for the one before; the service finds what the database was told to make."""
    described = services.described
    waits = {
        name: {of: how["condition"] for of, how in service.get("depends_on", {}).items()}
        for name, service in described.items()
    }
    assert waits == {
        "database": {},
        "schema": {"database": "service_healthy"},
        "api": {"schema": "service_completed_successfully"},
        "example": {"api": "service_healthy"},
    }
    made = described["database"]["environment"]
    url = f"postgresql://{made['POSTGRES_USER']}:{made['POSTGRES_PASSWORD']}@database/{made['POSTGRES_DB']}"
    assert described["api"]["environment"]["OS_PLACEMENT_DATABASE__CONNECTION"] == url == DATABASE
    assert services.image.ports == [PORT]
    # Nobody's token is checked: the port is for this machine alone.
    assert described["api"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]


def test_the_services_of_the_compose_file(services: Services) -> None:
    """Schema, service and cloud, in this order; API and explorer answer; a restart changes nothing."""
    done = services.run("schema")
    assert done.returncode == 0, done.stderr
    with services.started("api") as api:
        _check_unprivileged(api)
        done = services.run("example")
        assert "loaded 862 providers" in done.stdout, done.stdout + done.stderr
        _check_cloud(f"http://127.0.0.1:{services.port}")
        _check_explorer(f"http://127.0.0.1:{services.port}")
        conversation.check(Site(f"http://127.0.0.1:{services.port}", api, lambda: None))
        # No warning of an option that does not exist, and nothing that the read-only root refused.
        log = api.log.read_text()
        assert "WARNING" not in log, log
        assert "Traceback" not in log, log
        api.stop(timeout_s=10)
        assert api.popen.returncode == 0, api.output()
    assert services.run("schema").returncode == 0
    with services.started("api", UWSGI_PROCESSES="3") as api:
        assert "uWSGI: 3 processes with 16 threads each" in api.log.read_text()
        assert services.run("example").stdout.count("\n") == 1
        _check_cloud(f"http://127.0.0.1:{services.port}")


def _check_unprivileged(api: Process) -> None:
    """No process is root's, has a capability or could get one."""
    children = Path(f"/proc/{api.pid}/task/{api.pid}/children").read_text().split()
    assert children
    for pid in (str(api.pid), *children):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        assert status["Uid"].split() == ["8778"] * 4
        assert (int(status["CapEff"], 16), int(status["CapBnd"], 16)) == (0, 0)
        assert status["NoNewPrivs"] == "1"


def _check_cloud(url: str) -> None:
    """The hosts of the example are there, and 300 consumers, of whom none came twice."""
    # A trial's token has the roles that the service gives it.
    headers = client.headers(x_roles=None)
    trees = requests.get(f"{url}/-/trees", headers=headers, timeout=ENDS_S)
    assert trees.status_code == 200, trees.text
    usages = [
        requests.get(
            f"{url}/usages?project_id=project-{letter}", headers=headers, timeout=ENDS_S
        ).json()
        for letter in "abc"
    ]
    assert sum(each["usages"]["INSTANCE"]["consumer_count"] for each in usages) == 300
    # The mounted policy lets the token of a trial reshape: the body is what is wrong.
    assert requests.post(f"{url}/reshaper", json={}, headers=headers, timeout=ENDS_S).status_code == 400


def _check_explorer(url: str) -> None:
    """A browser gets the page without a token."""
    page = requests.get(f"{url}/-/explorer/", timeout=ENDS_S)
    assert page.status_code == 200
    assert "<title>" in page.text


def test_a_mounted_configuration_is_read(image: Image, large: Path) -> None:
    """A file in /etc/placement counts; a variable counts more."""
    conf = large / "mounted.conf"
    conf.write_text(
        "[placement_database]\nconnection = sqlite:////nowhere/else.sqlite\n[api]\nauth_strategy=noauth2\n"
    )
    volumes = {"/etc/placement/placement.conf": conf}
    database = {"OS_PLACEMENT_DATABASE__CONNECTION": "sqlite://"}
    check = ["placement-manage", "config", "check", "--before", "reload"]

    from_file = _run(image.words(check, {}, volumes))
    from_variable = _run(image.words(check, database, volumes))

    assert "Checking /etc/placement/placement.conf" in from_file.stderr
    assert "/nowhere/else.sqlite" in from_file.stdout
    assert "/nowhere/else.sqlite" not in from_variable.stdout


def _run(words: list[str]) -> "subprocess.CompletedProcess[str]":
    return ran(words)
