"""Options of ``[api]`` (contract 06 section 4.2)."""

from oslo_config import cfg

GROUP = "api"

OPTIONS = (
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "tokens are validated by the identity service"),
            ("noauth2", "anybody is whom the token says: for tests and trials only"),
        ],
        deprecated_group="DEFAULT",
        help="How requests are authenticated. Use noauth2 only where nobody else can reach the "
        "service.",
    ),
)
