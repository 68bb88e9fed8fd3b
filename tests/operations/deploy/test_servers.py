"""The service answers alike under each web server and reloads without losing a request."""

import os
import re
import signal
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.operations.deploy import conversation
from tests.support import deployment
from tests.support.deployment import Site, shipped
from tests.support.processes import lacking, wait_until
from tests.support.world import new_uuid

pytestmark = pytest.mark.deploy

PROXY = ("proxy", "proxy_uwsgi")


def apache_on_uwsgi(folder: Path) -> str:
    return shipped("apache/placement-uwsgi.conf", folder)


def mod_wsgi_path() -> str:
    """Return the option that gives Debian's own interpreter the packages of this environment."""
    module = deployment.APACHE_MODULES / "mod_wsgi.so"
    if not module.exists():
        lacking("libapache2-mod-wsgi-py3")
    made_for = re.search(rb"libpython(3\.\d+)", module.read_bytes())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if made_for is None or made_for[1].decode() != version:
        pytest.skip(f"mod_wsgi is made for another Python than {version}")
    packages = Path(sys.prefix) / f"lib/python{version}/site-packages"
    return f"python-path={deployment.ROOT}:{packages}"


def mod_wsgi_site(folder: Path, processes: int = 2) -> str:
    """The shipped site, with the packages of this environment on Debian's own interpreter."""
    (folder / "placement.wsgi").write_text(shipped("apache/placement.wsgi", folder))
    return shipped(
        "apache/placement-mod-wsgi.conf",
        folder,
        **{
            # Like a user that ``adduser --system`` makes it has no home.
            "user=placement group=placement": "user=nobody group=nogroup",
            "python-home=/opt/placement": mod_wsgi_path(),
            "processes=2": f"processes={processes}",
        },
    )


class Daemons(Site):
    """The processes of mod_wsgi, which begin anew, each between two requests, when their script is
    touched. At a graceful restart of Apache they are stopped together and may leave a 503."""

    def workers(self) -> set[int]:
        return {process for process in super().workers() if b"wsgi:placement" in _command(process)}


def _command(process: int) -> bytes:
    """Return the command line of a process; nothing if it has ended since it was listed."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def reload_under_load(site: Site, server: Site) -> None:
    """Reload ``server`` while clients of ``site`` work; all its workers are new afterwards."""
    before = server.workers()
    with conversation.Load(site) as load:
        wait_until("the load has begun", lambda: load.claimed > 20 or load.failures)
        server.reload()
        wait_until(
            "every worker is new",
            lambda: len(server.workers()) >= len(before) and not before & server.workers(),
            40,
        )
        after = load.claimed
        wait_until("the load goes on", lambda: load.claimed > after + 20 or load.failures)
    load.check_shown()


def test_uwsgi(folder: Path, environment: dict[str, str]) -> None:
    with deployment.uwsgi(folder, environment, http=True, shares_modules=False) as site:
        conversation.check(site)
        # Its buffer holds the path with the query and the query once more: this one it drops.
        long = "in:" + ",".join(new_uuid() for _ in range(1000))
        assert site.send("GET", f"/resource_providers?member_of={long}").status == 414
        reload_under_load(site, site)
        site.master.send(signal.SIGTERM)
        assert site.master.popen.wait(20) == 0


def test_uwsgi_keeps_every_client_that_waits(folder: Path, environment: dict[str, str]) -> None:
    """Its queue takes 300 connections while no worker accepts one, and all are answered."""
    with deployment.uwsgi(folder, environment, http=True) as site:
        port = urlsplit(site.url).port
        for worker in site.workers():
            os.kill(worker, signal.SIGSTOP)
        try:
            # The kernel does not answer a connection for which the queue has no place.
            waiting = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(300)]
        finally:
            for worker in site.workers():
                os.kill(worker, signal.SIGCONT)
        for each in waiting:
            with each:
                each.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert each.recv(12).endswith(b" 200")


def test_gunicorn(folder: Path, environment: dict[str, str]) -> None:
    with deployment.gunicorn(folder, environment, http=True, shares_modules=False) as site:
        conversation.check(site)
        reload_under_load(site, site)
        assert "gunicorn: 2 processes with 8 threads each." in site.master.log.read_text()


def test_apache_with_uwsgi_under_a_prefix(folder: Path, environment: dict[str, str]) -> None:
    with (
        deployment.uwsgi(folder, environment) as service,
        deployment.apache(folder, {}, apache_on_uwsgi(folder), *PROXY) as site,
    ):
        conversation.check(site)
        reload_under_load(site, service)
        reload_under_load(site, site)


def test_apache_with_mod_wsgi_under_a_prefix(folder: Path, environment: dict[str, str]) -> None:
    with deployment.apache(folder, environment, mod_wsgi_site(folder), "wsgi", "alias") as site:
        conversation.check(site, merges_slashes=True)
        daemons = Daemons(site.url, site.master, (folder / "placement.wsgi").touch)
        # What has not read the script yet when it is touched need not begin anew.
        said = folder / "apache-error.log"
        started = re.compile(r" (\d+) INFO placement\.wsgi .* starts\.")
        wait_until(
            "every process has loaded the service",
            lambda: {int(n) for n in started.findall(said.read_text())} >= daemons.workers(),
        )
        reload_under_load(site, daemons)


@pytest.mark.parametrize("name", ["uwsgi", "gunicorn"])
def test_nginx_under_a_prefix(folder: Path, environment: dict[str, str], name: str) -> None:
    serve = {"uwsgi": deployment.uwsgi, "gunicorn": deployment.gunicorn}[name]
    with (
        serve(folder, environment) as service,
        deployment.nginx(folder, shipped(f"nginx/placement-{name}.conf", folder)) as site,
    ):
        conversation.check(site)
        reload_under_load(site, service)
