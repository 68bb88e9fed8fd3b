"""Options of ``[DEFAULT]`` (specification 06 section 4.1)."""

from pathlib import Path

from oslo_config import cfg

GROUP = "DEFAULT"

OPTIONS = (
    cfg.StrOpt("tempdir", help="Directory for temporary files. Not used at present."),
    cfg.StrOpt(
        "pybasedir",
        default=str(Path(__file__).resolve().parents[2]),
        sample_default="<path of the installation>",
        help="Directory that contains the placement package. Change it only to build other paths "
        "from it.",
    ),
    cfg.StrOpt(
        "state_path",
        default="$pybasedir",
        help="Top directory of the service's state. Only tests read it.",
    ),
    cfg.BoolOpt(
        "log_options",
        default=True,
        help="Log the value of every option at DEBUG when the service starts, secrets masked. Turn "
        "it off to keep debug logs short.",
    ),
)
