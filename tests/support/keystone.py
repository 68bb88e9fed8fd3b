"""A real Keystone on SQLite, from PyPI, in a virtual environment of its own.

Keystone's dependencies are none of ours: `.ci/install` puts it into .venv-keystone, or
PLACEMENT_TEST_KEYSTONE names another environment with keystone and gunicorn.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.processes import (
    ENDS_S,
    Process,
    Startable,
    answers,
    free_port,
    lacking,
    public_folder,
    ran,
)

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "not-a-secret"
INTERFACES = ("public", "internal", "admin")

CONFIGURATION = """\
[database]
connection = sqlite:///{folder}/keystone.sqlite
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/receipts
[credential]
key_repository = {folder}/credential
[identity]
# The least that bcrypt takes: nobody attacks these passwords.
password_hash_rounds = 4
[token]
provider = fernet
expiration = {lifetime_s}
[cache]
# In the memory of its one process. Else each token that is checked takes half a second.
enabled = true
backend = oslo_cache.dict
"""

# Keystone parses the command line of whatever loads it, so that the server gets no arguments.
SERVER = """\
wsgi_app = "keystone.wsgi.api:application"
bind = "127.0.0.1:{port}"
workers = 1
threads = 8
control_socket_disable = True
"""


MIDDLEWARE = """
[keystone_authtoken]
www_authenticate_uri = http://identity.example.com/v3
auth_url = {url}
auth_type = password
username = placement
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
service_token_roles_required = true
http_request_max_retries = 0
"""
"""Settings of a service whose account ``make_account`` has made."""


def find_environment() -> Path | None:
    """Return the bin directory of the environment that has Keystone, None if there is none."""
    named = os.environ.get("PLACEMENT_TEST_KEYSTONE")
    place = Path(named) if named else ROOT / ".venv-keystone"
    is_there = (place / "bin/keystone-manage").exists() and (place / "bin/gunicorn").exists()
    return place / "bin" if is_there else None


def environment_of_keystone() -> Path:
    """Return the bin directory of the environment that has Keystone; skip, or fail in CI, if none."""
    found = find_environment()
    if found is None:
        lacking("keystone in .venv-keystone")
        raise AssertionError
    return found


class KeystoneServer(Startable):
    """What serves the Keystone that is configured in a folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"http://127.0.0.1:{port}/v3"
        (folder / "gunicorn.conf.py").write_text(SERVER.format(port=port))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [environment_of_keystone() / "gunicorn"]
        environment = {"OS_KEYSTONE_CONFIG_DIR": str(self.folder)}
        self.process = Process("keystone", command, folder=self.folder, environment=environment)
        self.process.wait_until("it answers", lambda: answers(self.url))

    def __enter__(self) -> "KeystoneServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.running.stop()


@dataclass
class Keystone:
    """A running Keystone; its API is used as its administrator."""

    server: KeystoneServer
    folder: Path
    _roles: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The URL of its API."""
        return self.server.url

    @cached_property
    def admin_token(self) -> str:
        """A token of the bootstrapped administrator, scoped to the project admin."""
        return self.token("admin", project="admin")

    def token(
        self,
        user: str,
        *,
        project: str | None = None,
        system: bool = False,
        domain: str | None = None,
    ) -> str:
        """Return a token of ``user``, scoped as asked (at most one scope) or unscoped."""
        scope: Any = "unscoped"
        if project:
            scope = {"project": {"name": project, "domain": {"id": "default"}}}
        elif system:
            scope = {"system": {"all": True}}
        elif domain:
            scope = {"domain": {"id": domain}}
        identity = {
            "methods": ["password"],
            "password": {"user": {"name": user, "domain": {"id": "default"}, "password": PASSWORD}},
        }
        answer = requests.post(
            f"{self.url}/auth/tokens",
            json={"auth": {"identity": identity, "scope": scope}},
            timeout=ENDS_S,
        )
        assert answer.status_code == 201, answer.text
        return answer.headers["X-Subject-Token"]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the identity API as administrator; return the answer's document, if it has one."""
        answer = requests.request(
            method,
            f"{self.url}{path}",
            json=body,
            timeout=ENDS_S,
            headers={"X-Auth-Token": self.admin_token},
        )
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    @contextlib.contextmanager
    def issuing_short_tokens(self, lifetime_s: int) -> Iterator["Keystone"]:
        """Yield a second server of the same Keystone whose tokens soon expire."""
        with public_folder("placement-keystone-") as folder:
            _configure(folder, self.folder, lifetime_s)
            with KeystoneServer(folder, free_port()) as server:
                yield Keystone(server, self.folder)

    def make_account(self) -> None:
        """Make the project ``service``, and the account of the service in it."""
        self.create_user("placement", {self.create_project("service"): "service"})

    def create_project(self, name: str) -> str:
        """Make a project in the default domain; return its id."""
        body = {"project": {"name": name, "domain_id": "default"}}
        return str(self.call("POST", "/projects", body)["project"]["id"])

    def create_user(self, name: str, roles: dict[str, str]) -> str:
        """Make a user with a role in each of some projects (project id to role name); return its id.

        The role must exist.
        """
        body = {"user": {"name": name, "domain_id": "default", "password": PASSWORD}}
        user = str(self.call("POST", "/users", body)["user"]["id"])
        for project, role in roles.items():
            self.call("PUT", f"/projects/{project}/users/{user}/roles/{self.role(role)}")
        return user

    def role(self, name: str) -> str:
        """Return the id of a role."""
        if name not in self._roles:
            self._roles |= {
                each["name"]: each["id"] for each in self.call("GET", "/roles")["roles"]
            }
        return self._roles[name]

    def create_endpoint(self, type: str, url: str) -> None:
        """Enter a service and its endpoint, on every interface, into the catalogue."""
        body = {"service": {"type": type, "name": type}}
        service = self.call("POST", "/services", body)["service"]["id"]
        for interface in INTERFACES:
            entry = {"service_id": service, "interface": interface, "url": url}
            entry["region_id"] = "RegionOne"
            self.call("POST", "/endpoints", {"endpoint": entry})


MANAGE = """\
import json, os, sys
from keystone.cmd.manage import main
for words in json.loads(sys.argv[1]):
    if os.fork() == 0:
        sys.argv[1:] = words
        sys.exit(main())
    if os.wait()[1]:
        sys.exit(1)
"""
"""Run ``keystone-manage`` several times, importing it once."""


def _bootstrap(programs: Path, folder: Path, url: str) -> None:
    """Make the schema, the keys, the administrator and the standard roles."""
    configured = f"--config-file={folder}/keystone.conf"
    owner = f"--keystone-user={os.geteuid()}", f"--keystone-group={os.getegid()}"
    settings = {"password": PASSWORD, "region-id": "RegionOne"}
    settings |= {f"{interface}-url": url for interface in INTERFACES}
    commands = (
        (configured, "db_sync"),
        (configured, "fernet_setup", *owner),
        (
            configured,
            "bootstrap",
            *(f"--bootstrap-{name}={value}" for name, value in settings.items()),
        ),
    )
    ran([programs / "python", "-c", MANAGE, json.dumps(commands)], check=True, cwd=folder)


def _configure(folder: Path, keys: Path, lifetime_s: int) -> None:
    """Write keystone.conf into ``folder``, with the database and keys of ``keys``."""
    settings = CONFIGURATION.format(folder=keys, lifetime_s=lifetime_s)
    (folder / "keystone.conf").write_text(settings)


@contextlib.contextmanager
def running_keystone() -> Iterator[Keystone]:
    """Start one with the administrator and the standard roles."""
    programs = environment_of_keystone()
    port = free_port()
    with public_folder("placement-keystone-") as folder:
        for name in ("fernet", "receipts", "credential"):
            (folder / name).mkdir(mode=0o700)
        _configure(folder, folder, lifetime_s=86_400)
        _bootstrap(programs, folder, f"http://127.0.0.1:{port}/v3")
        with KeystoneServer(folder, port) as server:
            yield Keystone(server, folder)


@pytest.fixture(scope="session")
def keystone() -> Iterator[Keystone]:
    """One for all tests of a process, with the project ``service`` and the account of the service in it."""
    with running_keystone() as running:
        running.make_account()
        yield running
