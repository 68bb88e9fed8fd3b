"""The library defaults that the service changes (specifications 01 section 15, 06 section 5)."""

from typing import Any

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


def set_for_process() -> None:
    """Change the libraries' defaults; the entry point ``oslo.config.opts.defaults``."""
    cors.set_defaults(**CORS)
    log.set_defaults(default_log_levels=_list_log_levels())


def set_for(conf: cfg.ConfigOpts) -> None:
    """Set the service's defaults on ``conf`` and leave the defaults of other applications unchanged."""
    conf.register_opts(cors.CORS_OPTS, group="cors")
    for name, value in CORS.items():
        conf.set_default(name, value, group="cors")
    conf.set_default("default_log_levels", _list_log_levels())


def _list_log_levels() -> list[str]:
    levels = list(log.get_default_log_levels())
    return levels + [level for level in LOG_LEVELS if level not in levels]
