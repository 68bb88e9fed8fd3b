"""The options of the metrics in ``[insight]``."""

from oslo_config import cfg

OPTIONS = (
    cfg.BoolOpt(
        "metrics_per_provider",
        default=False,
        help="Show on /-/metrics what each provider has of each resource class too: total, reserved, usage, "
        "allocation ratio and allocations, and its generation, under the names of openstack-exporter; and "
        "its traits. That is five lines for each inventory, one for each provider and one for each of its "
        "traits: 19 MB for 10,000 hosts, and 44 MB more if each has 40 traits. Turn it on for dashboards "
        "that show single hosts.",
    ),
    cfg.BoolOpt(
        "metrics_per_consumer",
        default=False,
        help="Show on /-/metrics what each consumer holds of each resource class, with its project and type. "
        "Each scrape reads all allocations: 100,000 consumers of three classes are 48 MB and 3 s of "
        "processor time. Whoever may read /-/metrics sees consumers and projects then. Turn it on for "
        "dashboards of single servers.",
    ),
)
