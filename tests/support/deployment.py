"""The service under real web servers, with the configuration files that we ship in ``etc/``.

Each context manager yields a :class:`Site`. The shipped files are used as they are but for paths,
ports and users.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.client import VERSION, Answer, Client
from tests.support.commands import Forked
from tests.support.databases import synced_file
from tests.support.forks import placement_api
from tests.support.processes import (
    Process,
    answers,
    free_port,
    free_ports,
    public_folder,
    require_program,
)

ROOT = Path(__file__).resolve().parents[2]
ETC = ROOT / "etc"
PROGRAMS = Path(sys.executable).parent
APACHE_MODULES = Path("/usr/lib/apache2/modules")
SERVERS = ("placement-api", "uwsgi", "gunicorn", "apache+uwsgi", "nginx+uwsgi", "nginx+gunicorn")
"""A server by itself, or a front end and the server behind it."""
MODULES = "placement.wsgi"
"""Imports all of the service, and makes no application."""

# A slow disk must not decide which of many writers to a file is refused: nothing here survives a power cut.
SETTINGS = """\
[api]
auth_strategy = {auth}
[placement_database]
connection = {database}
sqlite_synchronous = false
[oslo_middleware]
enable_proxy_headers_parsing = true
"""


@dataclass(frozen=True)
class Site:
    """A running deployment.

    :param url: where clients find it, with the prefix, without a slash at the end.
    :param workers: the processes of the master that serve.
    :param reload: asks for a graceful reload.
    """

    url: str
    master: Process
    reload: Callable[[], None]

    @property
    def prefix(self) -> str:
        """The path under which the service is mounted; empty at the root of the host."""
        return "/" + self.url.split("/", 3)[3] if self.url.count("/") > 2 else ""

    def send(
        self, method: str, path: str, body: Any = None, version: str = VERSION, **more: str | None
    ) -> Answer:
        """Send a request on a connection of its own, as :meth:`tests.support.client.Client.send`."""
        return Client(self.url, kept=False).send(method, path, body, version, **more)

    def workers(self) -> set[int]:
        """Return the process ids of the master's children."""
        children = Path(f"/proc/{self.master.pid}/task/{self.master.pid}/children").read_text()
        return {int(each) for each in children.split()}


def prepare(
    folder: Path, database: str, more: str = "", *, auth: str = "noauth2"
) -> dict[str, str]:
    """Write placement.conf, make the schema, and return the environment that names them.

    A database that is there keeps what it has.
    """
    text = SETTINGS.format(database=database, auth=auth) + more
    (folder / "placement.conf").write_text(text)
    file = Path(database.removeprefix("sqlite:///"))
    if database.startswith("sqlite:///") and not file.exists():
        synced_file(file)
    else:
        words = ("placement-manage", "--config-file", str(folder / "placement.conf"), "db", "sync")
        done = Forked(*words, environment=os.environ).wait()
        assert done.returncode == 0, done.stdout + done.stderr
    # The unprivileged servers write the database, its journals and the log.
    folder.chmod(0o777)
    for each in folder.glob("*.sqlite*"):
        each.chmod(0o666)
    return {"OS_PLACEMENT_CONFIG_DIR": str(folder)}


def shipped(name: str, folder: Path, **words: str) -> str:
    """Return the text of a file in ``etc/`` with the folder for its run and configuration paths.

    :param words: further replacements; a text that the file does not have is an error.
    """
    text = (ETC / name).read_text()
    for path in ("/run/placement", "/etc/placement"):
        text = text.replace(path, str(folder))
    for old, new in words.items():
        assert old in text, f"{name} has no {old}"
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def uwsgi(
    folder: Path,
    environment: dict[str, str],
    http: bool = False,
    processes: int = 2,
    forks_loaded: bool = False,
    shares_modules: bool = True,
) -> Iterator[Site]:
    """Serve with etc/uwsgi/placement.ini, on its socket or directly over HTTP.

    :param forks_loaded: load the service once and fork it, as uWSGI does unless it is told ``lazy-apps``.
    :param shares_modules: import its modules once. A worker makes its application of them; as shipped, it
        imports them first, which takes a second of the processor.
    """
    program = require_program("uwsgi", str(PROGRAMS))
    port = free_port()
    text = shipped("uwsgi/placement.ini", folder).replace(
        "processes = %k", f"processes = {processes}"
    )
    if http:
        socket = f"socket = {folder}/uwsgi.sock\nchmod-socket = 666"
        assert socket in text
        text = text.replace(socket, f"http-socket = 127.0.0.1:{port}\ntcp-nodelay = true")
    loads = processes
    if forks_loaded:
        assert "lazy-apps = true" in text
        text = text.replace("lazy-apps = true", "")
        loads = 1
    if shares_modules:
        text += f"shared-import = {MODULES}\n"
    (folder / "uwsgi.ini").write_text(text)
    command = [program, "--ini", folder / "uwsgi.ini"]
    with Process("uwsgi", command, folder=folder, environment=environment) as master:

        def loaded() -> int:
            return master.log.read_text().count("ready in")

        def chain_reload() -> None:
            served = loaded()
            (folder / "uwsgi.fifo").write_text("c")
            master.wait_until("new workers serve", lambda: loaded() >= served + loads, 60)

        master.wait_until("its workers serve", lambda: loaded() >= loads, 30 * processes)

        yield Site(f"http://127.0.0.1:{port}", master, chain_reload)


@contextlib.contextmanager
def gunicorn(
    folder: Path,
    environment: dict[str, str],
    http: bool = False,
    workers: int = 2,
    shares_modules: bool = True,
    **more: Any,
) -> Iterator[Site]:
    """Serve with etc/gunicorn/gunicorn.conf.py, on its socket or directly over HTTP.

    :param shares_modules: as of :func:`uwsgi`.
    :param more: settings that are another than in that file.
    """
    program = require_program("gunicorn", str(PROGRAMS))
    port = free_port()
    text = shipped(
        "gunicorn/gunicorn.conf.py", folder, **{"multiprocessing.cpu_count()": str(workers)}
    )
    text += "".join(f"{name} = {value!r}\n" for name, value in more.items())
    if http:
        text = text.replace(f"unix:{folder}/gunicorn.sock", f"127.0.0.1:{port}")
    if shares_modules:
        text += f"import {MODULES}\n"
    (folder / "gunicorn.conf.py").write_text(text.replace("import multiprocessing\n", ""))
    command = [program, "--config", folder / "gunicorn.conf.py"]
    with Process("gunicorn", command, folder=folder, environment=environment) as master:
        site = Site(f"http://127.0.0.1:{port}", master, lambda: master.send(signal.SIGHUP))
        master.wait_until("its workers run", lambda: len(site.workers()) == workers)
        if http:
            master.wait_until("it answers", lambda: answers(site.url))
        yield site


APACHE = """\
ServerRoot {folder}
PidFile {folder}/apache.pid
Listen 127.0.0.1:{port}
ServerName 127.0.0.1
ErrorLog {folder}/apache-error.log
DefaultRuntimeDir {folder}
{user}
{modules}
StartServers 2
ServerLimit 4
MaxRequestWorkers 100
GracefulShutdownTimeout 30
"""


@contextlib.contextmanager
def apache(folder: Path, environment: dict[str, str], site: str, *modules: str) -> Iterator[Site]:
    """Serve under /placement with the text ``site`` as Apache's configuration."""
    program = require_program("apache2")
    port = free_port()
    wanted = ("mpm_event", "authz_core", *modules)
    loads = [
        f"LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so"
        for name in wanted
        if (APACHE_MODULES / f"mod_{name}.so").exists()
    ]
    user = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
    base = APACHE.format(folder=folder, port=port, user=user, modules="\n".join(loads))
    (folder / "apache.conf").write_text(base + site)
    command = [program, "-d", folder, "-f", folder / "apache.conf", "-DFOREGROUND"]
    with Process("apache", command, folder=folder, environment=environment) as master:
        url = f"http://127.0.0.1:{port}/placement"
        master.wait_until("it answers", lambda: answers(url))
        yield Site(url, master, lambda: master.send(signal.SIGUSR1))


@contextlib.contextmanager
def haproxy(folder: Path, service: Site) -> Iterator[Site]:
    """Serve what answers over HTTP with etc/haproxy/placement.cfg, without TLS."""
    port = free_port()
    places = {
        "bind :8778 ssl crt /etc/haproxy/placement.pem": f"bind 127.0.0.1:{port}",
        "192.0.2.11:8778": service.url.removeprefix("http://"),
        "    server api2 192.0.2.12:8778\n": "",
    }
    base = "global\n    maxconn 1000\ndefaults\n    maxconn 1000\n"
    (folder / "haproxy.cfg").write_text(base + shipped("haproxy/placement.cfg", folder, **places))
    command = [require_program("haproxy"), "-db", "-f", folder / "haproxy.cfg"]
    with Process("haproxy", command, folder=folder) as master:
        url = f"http://127.0.0.1:{port}"
        master.wait_until("it answers", lambda: answers(url))
        yield Site(url, master, lambda: None)


NGINX = """\
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
worker_processes 2;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/nginx-body;
    proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi;
    uwsgi_temp_path {folder}/nginx-uwsgi;
    scgi_temp_path {folder}/nginx-scgi;
    large_client_header_buffers 4 64k;
    server {{
        listen 127.0.0.1:{port};
        include {folder}/site.conf;
    }}
}}
"""


@contextlib.contextmanager
def nginx(folder: Path, site: str) -> Iterator[Site]:
    """Serve under /placement with the text ``site`` in nginx's server block."""
    program = require_program("nginx")
    port = free_port()
    user = "user www-data;" if os.geteuid() == 0 else ""
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, user=user))
    command = [program, "-p", folder, "-c", folder / "nginx.conf"]
    with Process("nginx", command, folder=folder) as master:
        url = f"http://127.0.0.1:{port}/placement"
        master.wait_until("it answers", lambda: answers(url))
        yield Site(url, master, lambda: master.send(signal.SIGHUP))


@contextlib.contextmanager
def builtin(folder: Path, environment: dict[str, str], *more: str) -> Iterator[Site]:
    """Serve with the service's own command, placement-api."""
    port = free_port()
    words = ("--config-file", folder / "placement.conf", "--port", port, *more)
    with placement_api("placement-api", *words, folder=folder, environment=environment) as master:
        url = f"http://127.0.0.1:{port}"
        master.wait_until("it answers", lambda: answers(url))
        yield Site(url, master, lambda: None)


@contextlib.contextmanager
def serving(name: str, folder: Path, environment: dict[str, str]) -> Iterator[tuple[Site, list[Path]]]:
    """Serve with one of ``SERVERS``, as it is shipped; yield the logs of the service too."""
    front, _, behind = name.rpartition("+")
    serve: Any = {"placement-api": builtin, "uwsgi": uwsgi, "gunicorn": gunicorn}[behind]
    more = {} if front or behind == "placement-api" else {"http": True}
    with contextlib.ExitStack() as stack:
        service = site = stack.enter_context(serve(folder, environment, **more))
        if front == "apache":
            text = shipped(f"apache/placement-{behind}.conf", folder)
            modules = ("proxy", "proxy_uwsgi", "reqtimeout")
            site = stack.enter_context(apache(folder, {}, text, *modules))
        elif front == "nginx":
            site = stack.enter_context(nginx(folder, shipped(f"nginx/placement-{behind}.conf", folder)))
        yield site, [service.master.log]


@contextlib.contextmanager
def several(urls: Sequence[str], **more: str) -> Iterator[list[Site]]:
    """Serve by a process for each URL; all start at once. The URLs lead to the same database.

    :param more: variables of their environment.
    """
    with public_folder("placement-several-") as folder, contextlib.ExitStack() as stack:
        environment = prepare(folder, urls[0]) | more
        sites = []
        for url, port in zip(urls, free_ports(len(urls)), strict=True):
            own = environment | {"OS_PLACEMENT_DATABASE__CONNECTION": url}
            name, is_first = f"placement-api-{port}", not sites
            process = placement_api(
                name, "--port", port, folder=folder, environment=own, started=is_first
            )
            site = Site(f"http://127.0.0.1:{port}", stack.enter_context(process), lambda: None)
            sites.append(site)
        for site in sites:
            site.master.wait_until("it answers", lambda site=site: answers(site.url), 60)
        yield sites


@contextlib.contextmanager
def library(folder: Path, environment: dict[str, str], name: str) -> Iterator[Site]:
    """Serve with wsgiref, werkzeug or cheroot, as tests and trials do."""
    port = free_port()
    command = [sys.executable, Path(__file__).with_name("library_server.py"), name, str(port)]
    with Process(name, command, folder=folder, environment=environment) as master:
        url = f"http://127.0.0.1:{port}"
        master.wait_until("it answers", lambda: answers(url))
        yield Site(url, master, lambda: None)
