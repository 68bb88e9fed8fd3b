"""The steps of plans as commands of ``openstack server``, and the mover that asks Nova for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from keystoneauth1 import adapter
from osc_lib import exceptions

from placement.client.api import CHECK_IDENTITY
from placement.client.exceptions import PlacementClientError
from placement.client.nova import Nova, PlaceHidden
from placement.client.nova_moves import STEP_S, MoveKind, NovaMover
from placement.client.plans import Step, consumer_of
from placement.printable import quote_word

VERSION = "2.56"
"""Since this version the scheduler checks a migration to a named host, whether it is live or cold."""


def placement_adapter(app: Any) -> adapter.Adapter:
    """Return the adapter of this service that a command uses."""
    client = app.client_manager.placement
    return adapter.Adapter(client.session, **client.ks_filter)


def nova_of(app: Any) -> Nova:
    """Return the Nova of the cloud and region for which the command was called."""
    return Nova(app.client_manager.sdk_connection.compute)


def nova_mover(app: Any, step_s: float = STEP_S) -> NovaMover:
    """Return the mover of servers."""
    return NovaMover(nova_of(app), placement_adapter(app), step_s)


@contextmanager
def failures_as_command_errors() -> Iterator[None]:
    """Turn the failures of the client into command errors with the same text, and advice."""
    try:
        yield
    except PlaceHidden as error:
        raise exceptions.CommandError(f"{error}: the account must be an administrator's") from error
    except PlacementClientError as error:
        advice = f" {CHECK_IDENTITY}" if error.status == 401 else ""
        raise exceptions.CommandError(f"{error}{advice}") from error


def word_commands(mover: NovaMover, step: Step) -> str:
    """Return the shell commands that let Nova carry out a step, and that wait for its end."""
    server, way = consumer_of(step), mover.find_way(step)
    if way is MoveKind.DELETE:
        return _join(["openstack", "server", "delete", "--wait", server])
    host = mover.name_host(step)
    if way is MoveKind.COLD:
        confirm = _join(["openstack", "server", "migration", "confirm", server])
        return f"{_migrate(host, server, '--wait')} && {confirm} && {_wait_while('VERIFY_RESIZE', server)}"
    if mover.is_paused(step):
        # Without this option the command would wait until the server is active.
        return f"{_migrate(host, server, '--live-migration')} && {_wait_while('MIGRATING', server)}"
    live = _migrate(host, server, "--live-migration", "--wait")
    if way is MoveKind.LIVE:
        return live
    unshelve, shelve = (
        _join(["openstack", "server", verb, "--wait", server]) for verb in ("unshelve", "shelve")
    )
    return f"{unshelve} && {live} && {shelve}"


def _migrate(host: str, server: str, *options: str) -> str:
    words = ["openstack", "--os-compute-api-version", VERSION, "server", "migrate"]
    # The option and its value are one word, since a name can begin with a dash.
    return _join([*words, *options, f"--host={host}", server])


def _wait_while(status: str, server: str) -> str:
    """Return a shell loop that waits, since ``openstack`` does not have a command for that."""
    show = _join(["openstack", "server", "show", "-f", "value", "-c", "status", server])
    return f'while [ "$({show})" = {status} ]; do sleep 1; done'


def _join(words: Sequence[str]) -> str:
    return " ".join(map(quote_word, words))
