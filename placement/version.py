"""The name and version of this distribution, and the other one that brings a package of the same name."""

from importlib import metadata

DISTRIBUTION = "placement-service"
VERSION = "1.0.0"

OPENSTACK = "openstack-placement"
"""The distribution of the OpenStack service. One name is looked up: to scan all would take a second."""


def second_owner() -> str | None:
    """Return a sentence about the OpenStack service if it is installed beside this one, else None."""
    try:
        version = metadata.version(OPENSTACK)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"Two distributions own the package placement: {DISTRIBUTION} {VERSION} and {OPENSTACK} {version}."
        " Its files are those of the one that was installed last, or of both. Uninstall both, and install"
        " the one that is to serve."
    )
