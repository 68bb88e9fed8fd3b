"""The option of ``[healthcheck]`` that is ours; the others are oslo.middleware's."""

from oslo_config import cfg

GROUP = "healthcheck"

OPTIONS = (
    cfg.StrOpt(
        "path",
        default="/healthcheck",
        regex=r"^/[^/].*",
        help="Where the health check answers. There is none unless this or another option of the "
        "group is set. It also reports a database that cannot be reached.",
    ),
)
