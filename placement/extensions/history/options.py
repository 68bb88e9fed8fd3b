"""The options of the history in ``[insight]``."""

from oslo_config import cfg

OPTIONS = (
    cfg.FloatOpt(
        "history_days",
        default=0,
        min=0,
        help="For how many days the database keeps what each write found and left, and who wrote it; "
        "/-/history shows it. 0 keeps nothing, and costs nothing. A claim writes a row of some 500 bytes for "
        "each provider, with its indexes 1 KB. Set 30 where operators ask who removed allocations; give all "
        "workers and commands the same value, or what some of them write is missing.",
    ),
)
