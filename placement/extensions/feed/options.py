"""The options of the feed in ``[insight]``."""

from oslo_config import cfg

OPTIONS = (
    cfg.IntOpt(
        "waiting",
        min=0,
        help="The most requests of one process that wait for a change at once (/-/changes with wait_s); the "
        "others are answered at once. Unset it is a quarter of the threads of the process; where the server "
        "does not tell their number, of 4. Each takes a thread, and no connection to the database. Raise it "
        "with the number of threads where many follow the changes; 0 lets nobody wait.",
    ),
)
