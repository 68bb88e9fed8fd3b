"""The name and version of this distribution, and the check for the other one with the same package name."""

from importlib import metadata

DISTRIBUTION = "placement-service"
VERSION = "1.0.0"

OPENSTACK = "openstack-placement"
"""The distribution of the OpenStack service. One name is looked up, since scanning all would take a
second.
"""


def second_owner() -> str | None:
    """Return a sentence if the OpenStack service is installed in the same environment, otherwise None."""
    try:
        version = metadata.version(OPENSTACK)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"Two distributions own the package placement: {DISTRIBUTION} {VERSION} and {OPENSTACK} {version}."
        " Its files are those of the one that was installed last, or of both. Uninstall both, and install"
        " the one that is to serve."
    )
