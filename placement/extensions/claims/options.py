"""The options in ``[insight]`` of claims with chosen places."""

from oslo_config import cfg

OPTIONS = (
    cfg.BoolOpt(
        "claims",
        default=True,
        help="Serve claims that are decided here (/-/claims, /-/groups, /-/holds), if enabled is on. Turn "
        "it off where every client chooses by itself.",
    ),
    cfg.IntOpt(
        "claims_most",
        default=1000,
        min=1,
        max=1000,
        help="The most consumers that one request may claim for. Lower it when large requests keep others "
        "waiting.",
    ),
)
