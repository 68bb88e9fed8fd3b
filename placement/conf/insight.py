"""Options of ``[insight]`` (specification 07 section 1)."""

from oslo_config import cfg

GROUP = "insight"

OPTIONS = (
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Serve what operators ask beside the compatible API, under /-/: why there is no "
        "candidate, how many more would fit, what if, whole trees. Turn it on where operators look "
        "for answers; clients of the compatible API do not need it.",
    ),
    cfg.ListOpt(
        "public",
        default=[],
        item_type=cfg.types.String(choices=["metrics", "explorer"]),
        help="What is served under /-/ without a token: metrics, explorer, or both. The files of the "
        "explorer hold no data. Name metrics where only the monitoring can reach the service.",
    ),
    cfg.StrOpt(
        "metrics_directory",
        help="A directory, made if it is missing, through which the processes of one server share "
        "their numbers, so that /-/metrics of any of them answers for all. Without it each process "
        "answers for itself. Set it under uWSGI, gunicorn and mod_wsgi with several processes, on a "
        "file system in memory, one for each server: /run/placement/metrics.",
    ),
    cfg.IntOpt(
        "work_factor",
        default=200,
        min=1,
        help="The most searches that one question under /-/ may cost; an answer that was cut says "
        'so ("complete": false). Raise it when answers about large requests are incomplete, lower it '
        "when such questions take too much of a worker.",
    ),
)
