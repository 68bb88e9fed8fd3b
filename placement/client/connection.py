"""The connection of a command to a service: keystoneauth's options, or a cloud of clouds.yaml."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from keystoneauth1 import adapter, loading

_PASSWORD = re.compile(r"(?<=://)([^\s/:@]*):[^\s/]*@")


def without_password(text: str) -> str:
    """Return ``text`` with the password of every URL in it masked."""
    return _PASSWORD.sub(r"\1:***@", text)


class NoCloudFiles(Exception):
    """A cloud of clouds.yaml was named, but openstacksdk is not installed."""

    def __str__(self) -> str:
        return "a cloud of clouds.yaml needs openstacksdk: pip install openstacksdk"


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Add the options for session, adapter and authentication, as every OpenStack client has them."""
    loading.register_session_argparse_arguments(parser)
    loading.register_adapter_argparse_arguments(parser, service_type="placement")
    loading.register_auth_argparse_arguments(parser, list(argv), default="password")


def adapter_of(arguments: argparse.Namespace, endpoint: str | None = None) -> Any:
    """Return the adapter that the arguments describe.

    :param endpoint: where the service is, if the arguments do not say so.
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


def of_cloud(name: str) -> Any:
    """Return the Placement proxy of a cloud of clouds.yaml, which is an adapter too.

    :raises NoCloudFiles: openstacksdk is not installed.
    """
    try:
        import openstack
    except ImportError as error:
        raise NoCloudFiles from error
    return openstack.connect(cloud=name).placement
