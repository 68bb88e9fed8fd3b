"""Options of ``[api]`` (specification 06 section 4.2)."""

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
    cfg.FloatOpt(
        "slow_request_s",
        default=0,
        min=0,
        help="A request that takes longer than so many seconds leaves one WARNING that says where the "
        "time went: stages of the search, statements, repeats. 0 is off. Set it when clients complain "
        "and the log does not say of what.",
    ),
)
