"""Writes under load for a minute, with the settings of etc/uwsgi/placement.ini.

Each client is a process that opens a connection for each request, as Nova does through a web server. Printed
are the rate, the latency, the slowest client beside the median of all, what got no answer, and the processor
time of the service. A slower disk is a delay of each flush of the log (PostgreSQL's ``commit_delay``).
"""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

from benchmarks import bulk, claims, profiles, writes
from benchmarks.clients import Maker, Measurement, Operation, run
from benchmarks.clouds import Cloud
from benchmarks.connection import Answer, Connection
from benchmarks.databases import scratch
from benchmarks.servers import REPOSITORY, SERVICE, Template, environment, running
from benchmarks.target import Target, negotiate
from placement.db.engine import with_default_driver

SHIPPED = REPOSITORY / "etc/uwsgi/placement.ini"
NOT_HERE = ("socket", "chmod-socket", "master-fifo")
"""What the file says of places of an installation."""

SERVERS_OF_A_HOST = 100_000


def _template(folder: Path, options: argparse.Namespace) -> Template:
    """Return uWSGI with the shipped file on a port, for clients without a web server."""
    copy = folder / "placement.ini"
    lines = SHIPPED.read_text().splitlines()
    copy.write_text("\n".join(line for line in lines if line.split(" ")[0] not in NOT_HERE))
    command = (
        f"uwsgi --ini {copy} --http-socket {{host}}:{{port}} --add-header 'Connection: close' --tcp-nodelay"
    )
    if options.processes:
        command += f" --processes {options.processes}"
    if options.threads:
        command += f" --threads {options.threads}"
    return Template(command)


@contextlib.contextmanager
def _service(options: argparse.Namespace, cloud: Cloud) -> Iterator[Target]:
    with scratch(options.database) as database, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine = create_engine(with_default_driver(make_url(database)))
        if options.commit_ms:
            with engine.begin() as connection:
                for setting in (f"commit_delay = {1000 * options.commit_ms}", "commit_siblings = 0"):
                    connection.execute(text(f'ALTER DATABASE "{engine.url.database}" SET {setting}'))
        variables = environment(database) | {"OS_INSIGHT__ENABLED": "true"}
        with running(_template(folder, options), SERVICE, variables, folder / "log") as server:
            bulk.insert_cloud(engine, cloud)
            engine.dispose()
            token = {"X-Auth-Token": "admin"}
            yield negotiate("service", server.url, token, pids=(server.process.pid,), database=database)


def _gangs(target: Target, _cloud: Cloud) -> Maker:
    def make(connection: Connection, _client: int) -> Operation:
        def gang(_number: int) -> Answer:
            return claims.post(connection, "/-/claims", claims.claims_of(claims.GANG, claims.RACING))

        return gang

    return make


WHAT = {
    "boots": lambda target, cloud: claims.booting(claims.one_request),
    "gangs": _gangs,
    "claims": writes.spread_claims,
    "claims-one-host": writes.contended_claims,
    "swaps": writes.swaps,
}


def _print(what: str, found: Measurement) -> None:
    scale = claims.GANG if what == "gangs" else 1
    cpu_ms = (found.server_cpu_ms or 0.0) / scale
    print(
        f"{what:<16}{found.clients:>5} clients {found.per_second * scale:8.0f} a second"
        f"  median {found.median_ms:6.1f}  p99 {found.p99_ms:6.1f}  longest {found.longest_ms:7.1f} ms"
        f"  slowest client {found.slowest_client_ms / found.median_ms:4.1f} of it"
        f"  {cpu_ms:5.2f} ms of processor  {found.failures} failed {found.statuses}",
        flush=True,
    )


def _print_layers(target: Target, make: Maker, clients: int, seconds: float) -> None:
    """Print the shares of the layers of the processor time, and of the time that requests take."""
    for waits, what in ((False, "processor"), (True, "time")):
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / "stacks"
            with profiles.sampled(target, seconds, raw, waits=waits):
                run(target, make, clients=clients, seconds=seconds + 1)
            shares = ", ".join(f"{name} {part:.0f}" for name, part in profiles.by_layer(raw).items())
        print(f"    {what}, % of it: {shares}", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sustained", description=__doc__)
    parser.add_argument("--database", default="postgresql", choices=("sqlite", "postgresql", "mysql"))
    parser.add_argument("--what", nargs="*", default=["boots"], choices=sorted(WHAT))
    parser.add_argument("--clients", type=int, nargs="*", default=[16, 64, 256])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--processes", type=int, help="instead of those of the file")
    parser.add_argument("--threads", type=int, help="instead of those of the file")
    parser.add_argument("--layers", action="store_true", help="sample a worker meanwhile (needs py-spy)")
    parser.add_argument("--commit-ms", type=int, default=0, help="the delay of each flush; PostgreSQL only")
    options = parser.parse_args()
    host = claims.make_tree(SERVERS_OF_A_HOST)
    cloud = Cloud("sustained", options.hosts, host, (), claim=claims.CLAIM)
    for what in options.what:
        for clients in options.clients:
            # Each measurement begins with an empty ledger.
            with _service(options, cloud) as target:
                make = WHAT[what](target, cloud)
                _print(what, run(target, make, clients=clients, seconds=options.seconds))
                if options.layers:
                    _print_layers(target, make, clients, options.seconds)


if __name__ == "__main__":
    main()
