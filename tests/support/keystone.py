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

from tests.support.processes import ENDS_S, Process, answers, free_port, lacking, public_folder, ran

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


def environment_of_keystone() -> Path:
    """Return the bin directory of the environment that has Keystone; skip, or fail in CI, if none."""
    named = os.environ.get("PLACEMENT_TEST_KEYSTONE")
    place = Path(named) if named else ROOT / ".venv-keystone"
    if not ((place / "bin/keystone-manage").exists() and (place / "bin/gunicorn").exists()):
        lacking("keystone in .venv-keystone")
    return place / "bin"


@dataclass
class Keystone:
    """A running Keystone; its API is used as its administrator."""

    url: str
    folder: Path
    _roles: dict[str, str] = field(default_factory=dict)

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
            with _served(environment_of_keystone(), folder, free_port()) as url:
                yield Keystone(url=url, folder=self.folder)

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
def _served(programs: Path, folder: Path, port: int) -> Iterator[str]:
    """Serve the Keystone configured in ``folder``; yield its URL."""
    url = f"http://127.0.0.1:{port}/v3"
    (folder / "gunicorn.conf.py").write_text(SERVER.format(port=port))
    environment = {"OS_KEYSTONE_CONFIG_DIR": str(folder)}
    with Process("keystone", [programs / "gunicorn"], folder=folder, environment=environment) as it:
        it.wait_until("it answers", lambda: answers(url))
        yield url


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
        with _served(programs, folder, port) as url:
            yield Keystone(url=url, folder=folder)


@pytest.fixture(scope="session")
def keystone() -> Iterator[Keystone]:
    """One for all tests of a process, with the project ``service`` and the account of the service in it."""
    with running_keystone() as running:
        running.create_user("placement", {running.create_project("service"): "service"})
        yield running
