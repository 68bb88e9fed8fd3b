"""The options of the explorer in ``[insight]``."""

from oslo_config import cfg

OPTIONS = (
    cfg.StrOpt(
        "link_consumer",
        help="Where a consumer lives, as a URL with {consumer} in place of its uuid, such as "
        "https://dashboard.example.org/project/instances/{consumer}/. The explorer leads there. "
        "Set it to go from an allocation to the server.",
    ),
    cfg.StrOpt(
        "link_project",
        help="Where a project lives, as a URL with {project} in place of its id, such as "
        "https://dashboard.example.org/identity/{project}/. The explorer leads there. Set it to go from an "
        "allocation to its owner.",
    ),
)
