"""The option of the example."""

from oslo_config import cfg

OPTIONS = (cfg.BoolOpt("count_writes", default=False, help="Count the writes of each process."),)
