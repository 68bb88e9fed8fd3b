"""The connection of a command to a service: keystoneauth's options, or a cloud of clouds.yaml."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from keystoneauth1 import adapter, loading

from placement.client.argument_types import number

HELP = "--help-identity"

TIMEOUT_S = 600.0
"""How long a command waits for an answer, unless ``--timeout`` or the cloud says otherwise."""

_PASSWORD = re.compile(r"(?<=://)([^\s/:@]*):[^\s/]*@")


def without_password(text: str) -> str:
    """Return ``text`` with the password of every URL in it masked."""
    return _PASSWORD.sub(r"\1:***@", text)


class NoCloud(Exception):
    """The named cloud of clouds.yaml cannot be used."""


def take_identity(
    prog: str,
    argv: Sequence[str],
    service_type: str = "placement",
    *,
    timeout_s: float = TIMEOUT_S,
) -> tuple[argparse.Namespace, list[str]]:
    """Read the options for session, adapter and authentication, as every OpenStack client has them.

    These are about forty, so the help of a command shows only ``--help-identity``, which lists them.

    :param timeout_s: the default of ``--timeout``.
    :return: the values of these options, and the remaining words.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [identity options] ...",
        description="The identity options, which may stand anywhere among the others. Most may be variables"
        " of the environment instead: OS_AUTH_URL for --os-auth-url. Those of another plugin than password"
        " are listed beside its --os-auth-type.",
        add_help=False,
        allow_abbrev=False,
    )
    loading.register_session_argparse_arguments(parser)
    loading.register_adapter_argparse_arguments(parser, service_type=service_type)
    loading.register_auth_argparse_arguments(parser, list(argv), default="password")
    parser.set_defaults(timeout=timeout_s)
    _bound_timeout(parser)
    if HELP in argv:
        parser.print_help()
        parser.exit()
    return parser.parse_known_args(argv)


def _bound_timeout(parser: argparse.ArgumentParser) -> None:
    """Refuse a ``--timeout`` that is not positive: keystoneauth reads 0 as no limit."""
    for action in parser._actions:
        if action.dest == "timeout":
            action.type = number(lowest=0.001)


def mention_identity(parser: argparse.ArgumentParser) -> None:
    """Show in the help of a command where the options of :func:`take_identity` are listed."""
    group = parser.add_argument_group("identity options")
    group.add_argument(
        HELP,
        action="store_true",
        help="list them: --os-auth-type, --os-auth-url, --os-username, ...; or OS_AUTH_URL, ... in the"
        " environment",
    )


def adapter_of(arguments: argparse.Namespace, endpoint: str | None = None) -> Any:
    """Return the adapter that the arguments describe.

    :param endpoint: the URL of the service, if the arguments do not give it.
    """
    auth = loading.load_auth_from_argparse_arguments(arguments)
    session = loading.load_session_from_argparse_arguments(arguments, auth=auth)
    return adapter.Adapter(
        session,
        service_type=arguments.os_service_type,
        service_name=arguments.os_service_name,
        interface=arguments.os_interface,
        region_name=arguments.os_region_name,
        endpoint_override=endpoint or arguments.os_endpoint_override,
    )


def of_environment(service_type: str) -> Any:
    """Return the adapter that the variables of the environment describe, such as ``OS_AUTH_URL``."""
    arguments, _ = take_identity("", (), service_type)
    return adapter_of(arguments)


def of_cloud(name: str, service_type: str = "placement", timeout_s: float = TIMEOUT_S) -> Any:
    """Return the openstacksdk proxy of a service, which is an adapter too, for a cloud of clouds.yaml.

    :param timeout_s: how long to wait for an answer, if the cloud does not set ``api_timeout``.
    :raises NoCloud: openstacksdk is not installed, or does not know the cloud.
    """
    try:
        import openstack
    except ImportError as error:
        raise NoCloud(
            "a cloud of clouds.yaml needs openstacksdk: pip install openstacksdk"
        ) from error
    try:
        cloud = openstack.connect(cloud=name)
        # The timeout must be set before the proxy is made, which can already ask for a token.
        if cloud.session.timeout is None:
            cloud.session.timeout = timeout_s
        return getattr(cloud, service_type)
    except openstack.exceptions.SDKException as error:
        raise NoCloud(str(error)) from error
