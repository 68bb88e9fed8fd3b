"""The library defaults that the service changes (specifications 01 section 15, 06 section 5)."""

from typing import Any

from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_log import log
from oslo_middleware import cors

CORS: dict[str, Any] = {
    "allow_headers": [
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Identity-Status",
        "X-Roles",
        "X-Service-Catalog",
        "X-User-Id",
        "X-Tenant-Id",
        "OpenStack-API-Version",
    ],
    "expose_headers": [
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Subject-Token",
        "X-Service-Token",
        "OpenStack-API-Version",
    ],
    "allow_methods": ["GET", "PUT", "POST", "DELETE", "PATCH"],
}

# Alembic logs three lines for each revision.
LOG_LEVELS = ["routes=INFO", "alembic=WARNING"]

IDENTITY: dict[str, Any] = {"http_connect_timeout": 5}
"""The library waits without an end: requests with unknown tokens would take all threads while the identity
service is frozen.
"""


def set_for_process() -> None:
    """Change the libraries' defaults; the entry point ``oslo.config.opts.defaults``."""
    cors.set_defaults(**CORS)
    for _, options in auth_token.AUTH_TOKEN_OPTS:
        cfg.set_defaults(options, **IDENTITY)
    log.set_defaults(default_log_levels=_list_log_levels())


def set_for(conf: cfg.ConfigOpts) -> None:
    """Set the service's defaults on ``conf`` and leave the defaults of other applications unchanged."""
    conf.register_opts(cors.CORS_OPTS, group="cors")
    for name, value in CORS.items():
        conf.set_default(name, value, group="cors")
    conf.set_default("default_log_levels", _list_log_levels())


def set_for_identity(conf: cfg.ConfigOpts) -> None:
    """Register the options of the middleware that asks the identity service, with the service's defaults."""
    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    for name, value in IDENTITY.items():
        conf.set_default(name, value, group="keystone_authtoken")


def _list_log_levels() -> list[str]:
    levels = list(log.get_default_log_levels())
    return levels + [level for level in LOG_LEVELS if level not in levels]
