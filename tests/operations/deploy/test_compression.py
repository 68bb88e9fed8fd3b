"""The servers in front compress large answers for clients that take gzip, and nothing else changes."""

import contextlib
import gzip
import http.client
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.operations.deploy import test_servers
from tests.support import deployment
from tests.support.client import headers
from tests.support.deployment import Site, shipped
from tests.support.processes import public_folder
from tests.support.world import World

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("compression")]

GZIP = ("deflate", "filter", "headers")
HOSTS = 20
LARGE = ("/resource_providers", "/-/explorer/explorer.css")
"""What is large and has a tag: JSON of the API, and text of the explorer."""


@dataclass(frozen=True)
class Raw:
    """An answer as it came over the wire."""

    status: int
    body: bytes
    headers: http.client.HTTPMessage

    @property
    def packed(self) -> bool:
        return self.headers["Content-Encoding"] == "gzip"

    @property
    def text(self) -> bytes:
        """The body as a client reads it."""
        return gzip.decompress(self.body) if self.packed else self.body

    @property
    def tag(self) -> str:
        return self.headers["ETag"] or ""


def ask(site: Site, path: str, method: str = "GET", **more: str) -> Raw:
    """Send a request, with more headers, on a connection of its own."""
    place = urllib.parse.urlsplit(site.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, site.prefix + path, None, headers(**more))
        answer = connection.getresponse()
        return Raw(answer.status, answer.read(), answer.headers)


@pytest.fixture(scope="module")
def prepared() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder and an environment, as ``folder`` and ``environment`` have them, for all tests here."""
    with public_folder("placement-deploy-") as folder:
        more = "[insight]\nenabled = true\npublic = metrics\n[healthcheck]\npath = /healthcheck\n"
        yield folder, deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite", more)


@pytest.fixture(scope="module")
def behind_uwsgi(prepared: tuple[Path, dict[str, str]]) -> Iterator[Path]:
    """The folder with the socket of a uWSGI."""
    folder, environment = prepared
    with deployment.uwsgi(folder, environment, processes=1):
        yield folder


def test_apache_with_uwsgi(behind_uwsgi: Path) -> None:
    site = shipped("apache/placement-uwsgi.conf", behind_uwsgi)
    with deployment.apache(behind_uwsgi, {}, site, *test_servers.PROXY, *GZIP) as found:
        check(found)


def test_apache_that_compresses_texts_as_debian_has_it(behind_uwsgi: Path) -> None:
    """The types of deflate.conf, which has no bound for the size, are not added to ours."""
    site = "AddOutputFilterByType DEFLATE text/html text/css text/javascript text/plain\n"
    site += shipped("apache/placement-uwsgi.conf", behind_uwsgi)
    with deployment.apache(behind_uwsgi, {}, site, *test_servers.PROXY, *GZIP) as found:
        check(found)
        assert not ask(found, "/-/explorer/", accept_encoding="gzip").packed


def test_apache_with_mod_wsgi(prepared: tuple[Path, dict[str, str]]) -> None:
    folder, environment = prepared
    site = test_servers.mod_wsgi_site(folder, processes=1)
    with deployment.apache(folder, environment, site, "wsgi", "alias", *GZIP) as found:
        check(found)


def test_nginx_with_uwsgi(behind_uwsgi: Path) -> None:
    site = shipped("nginx/placement-uwsgi.conf", behind_uwsgi)
    with deployment.nginx(behind_uwsgi, site) as found:
        check(found)


def test_nginx_with_gunicorn(prepared: tuple[Path, dict[str, str]]) -> None:
    folder, environment = prepared
    site = shipped("nginx/placement-gunicorn.conf", folder)
    with (
        deployment.gunicorn(folder, environment, workers=1),
        deployment.nginx(folder, site) as found,
    ):
        check(found)


def test_haproxy(prepared: tuple[Path, dict[str, str]]) -> None:
    """It compresses; placement-api behind it compresses nothing."""
    with (
        deployment.builtin(*prepared) as service,
        deployment.haproxy(prepared[0], service) as found,
    ):
        check(found)
        assert not ask(service, LARGE[0], accept_encoding="gzip").packed


def check(site: Site) -> None:
    """Large answers are compressed, small ones are not, and tags hold."""
    world = World(site)
    hosts = [world.host(VCPU=8) for _ in range(HOSTS)]
    for path in LARGE:
        check_large(site, path)
        check_tags(site, path)
    check_metrics(site)
    check_left_alone(site, hosts[0])
    stale = ask(site, LARGE[0], accept_encoding="gzip").tag
    world.host(VCPU=8)
    changed = ask(site, LARGE[0], accept_encoding="gzip", if_none_match=stale)
    assert changed.status == 200
    assert changed.text == ask(site, LARGE[0]).body


def check_large(site: Site, path: str) -> None:
    """Clients that take gzip get a fraction of the bytes, and read the same."""
    plain, packed = ask(site, path), ask(site, path, accept_encoding="gzip, deflate")
    assert plain.status == packed.status == 200
    assert packed.packed and not plain.packed
    assert packed.text == plain.body
    assert len(packed.body) < len(plain.body) / 2
    assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
    vary = ",".join(packed.headers.get_all("Vary", [])).lower()
    assert "accept-encoding" in vary
    assert not ask(site, path, accept_encoding="gzip;q=0").packed


def check_tags(site: Site, path: str) -> None:
    """A client that sends back the tag it got is told that nothing changed, under the same tag."""
    plain, packed = ask(site, path), ask(site, path, accept_encoding="gzip")
    kept = ask(site, path, if_none_match=plain.tag)
    assert (kept.status, kept.body, kept.tag) == (304, b"", plain.tag)
    for tags in (packed.tag, f'"other", {packed.tag}'):
        kept = ask(site, path, accept_encoding="gzip", if_none_match=tags)
        assert (kept.status, kept.body) == (304, b"")
        assert kept.tag.removeprefix("W/") == packed.tag.removeprefix("W/")
    kept = ask(site, path, accept_encoding="gzip", if_none_match=plain.tag)
    assert (kept.status, kept.body) == (304, b"")
    assert ask(site, path, accept_encoding="gzip", if_none_match='"other"').text == plain.body


def check_metrics(site: Site) -> None:
    """Prometheus, which takes gzip, gets the whole text."""
    scraped = ask(site, "/-/metrics", accept_encoding="gzip")
    assert scraped.status == 200
    assert scraped.packed
    assert scraped.text.endswith(b"\n")
    assert b"placement_" in scraped.text


def check_left_alone(site: Site, host: str) -> None:
    """What is small or has no body comes as it does for a client that takes no gzip."""
    for method, path, status in (
        ("GET", "/", 200),
        ("GET", f"/resource_providers/{host}", 200),
        ("GET", "/resource_providers/none", 404),
        ("GET", "/traits/HW_CPU_X86_AVX2", 204),
        ("HEAD", "/resource_providers", 405),
    ):
        plain = ask(site, path, method)
        asked = ask(site, path, method, accept_encoding="gzip")
        assert (plain.status, asked.status) == (status, status)
        assert not asked.packed
        assert len(asked.body) == len(plain.body)
        assert asked.tag == plain.tag
