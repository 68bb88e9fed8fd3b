"""Options of ``[workarounds]`` (specification 06 section 4.5)."""

from oslo_config import cfg

GROUP = "workarounds"

OPTIONS = (
    cfg.BoolOpt(
        "optimize_for_wide_provider_trees",
        default=False,
        help="Drop hopeless combinations early in trees with many similar children. The set of "
        "valid candidates stays the same. Accepted for existing configurations.",
    ),
)
