"""The options of questions in ``[insight]``."""

from oslo_config import cfg

OPTIONS = (
    cfg.StrOpt(
        "shapes_file",
        help="A YAML file of named requests, such as flavors: 'small: resources=VCPU:1,MEMORY_MB:2048'. "
        "/-/capacity?shape=small answers how many more of it fit, and /-/metrics shows it of all. The "
        "file is read when the service starts or reloads; placement-manage config check looks at it. "
        "Write one to be told before a flavor runs out.",
    ),
    cfg.IntOpt(
        "shapes_interval",
        default=60,
        min=1,
        help="Seconds for which /-/metrics shows the same numbers of shapes before one process counts "
        "anew. Raise it where counting takes too much of a worker.",
    ),
    cfg.IntOpt(
        "survival_interval",
        default=0,
        min=0,
        help="Show on /-/metrics the share of hosts, and of aggregates, that may fail because all their "
        "consumers would fit elsewhere, made anew at most every so many seconds; 0 does not show it. It "
        "reads all allocations: set 300 or more in a cloud of 100,000 consumers.",
    ),
)
