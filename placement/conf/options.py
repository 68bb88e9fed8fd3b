"""Every option of the service, by group (specification 06 section 4, 07 section 1).

Extensions declare their options, all in ``[insight]``, in their ``options.py``.
"""

from pathlib import Path

from oslo_config import cfg

from placement import installed

INCOMPLETE_ID = "00000000-0000-0000-0000-000000000000"

DEFAULT = (
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

API = (
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "tokens are validated by the identity service"),
            ("noauth2", "the token itself says who the caller is: for tests and trials only"),
        ],
        deprecated_group="DEFAULT",
        help="How requests are authenticated. Use noauth2 only where no one else can reach the "
        "service.",
    ),
    cfg.FloatOpt(
        "slow_request_s",
        default=0,
        min=0,
        help="A request that takes longer than so many seconds leaves one WARNING that says where the "
        "time went: stages of the search, statements, repeats. 0 is off. Set it when clients complain "
        "of slow answers.",
    ),
    cfg.FloatOpt(
        "search_deadline",
        default=5,
        min=0,
        help="Seconds that one request may search for candidates, or for the answer of a question under "
        "/-/. Then it is answered with what was found; if nothing was, with 503. 0 is no deadline. Raise "
        "it where requests of very many groups must find the last host that can take them.",
    ),
)

PLACEMENT = (
    cfg.BoolOpt(
        "randomize_allocation_candidates",
        default=False,
        help="Answer allocation candidates in random order, also those of one tree, and a random sample "
        "where a limit cuts them. Without it a limit already gives each request other hosts. Turn it on "
        "when concurrent requests compete for the same devices of a host.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_project_id",
        default=INCOMPLETE_ID,
        help="Project of consumers whose allocations were written without one (before microversion "
        "1.8). Change it, before the first start, to tell them apart in reports.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_user_id",
        default=INCOMPLETE_ID,
        help="User of consumers whose allocations were written without one (before microversion "
        "1.8). Change it together with incomplete_consumer_project_id.",
    ),
    cfg.IntOpt(
        "allocation_conflict_retry_count",
        default=10,
        help="How often a write that lost a race in the database is tried before it is answered "
        "with 409. Raise it when clients see conflicts under very heavy load.",
    ),
    cfg.IntOpt(
        "max_allocation_candidates",
        default=-1,
        help="The most candidates generated for one request, before its limit is applied; a negative "
        "number for no bound. Set it when requests with many combinations take too long.",
    ),
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "all candidates of one tree before those of the next"),
            ("breadth-first", "one candidate of each tree in turn"),
        ],
        help="In which order candidates are generated. Use breadth-first together with "
        "max_allocation_candidates, so that one wide tree does not use up the bound.",
    ),
    cfg.IntOpt(
        "max_answered_candidates",
        default=200_000,
        min=1,
        help="The most candidates in one answer, whatever its limit; a search that found more is cut "
        "with a warning in the log. Unlike max_allocation_candidates it is not a setting of the search "
        "but guards the memory of the worker: some 1 KiB a candidate. Lower it on small machines.",
    ),
    cfg.IntOpt(
        "max_candidates_answer_size",
        default=12 * 1024 * 1024,
        min=1024 * 1024,
        help="The most bytes of one answer with allocation candidates, whatever its limit; a search "
        "that found more is cut with a warning in the log. Each thread may hold one such answer. "
        "Raise it where requests without a limit must list more than some 10,000 hosts.",
    ),
    cfg.IntOpt(
        "max_request_body_size",
        default=8 * 1024 * 1024,
        min=1024,
        help="The most bytes of a request body; a longer one is answered with 413. Raise it when "
        "reshapes of very large trees are refused.",
    ),
    cfg.IntOpt(
        "max_query_string_length",
        default=65536,
        min=1024,
        help="The most characters of a query string; a longer one is answered with 414. Raise it "
        "when member_of lists of very many aggregates are refused.",
    ),
    cfg.IntOpt(
        "max_request_groups",
        default=256,
        min=1,
        help="The most request groups of one allocation candidates request; one with more is "
        "answered with 400. Raise it when servers with very many devices are refused.",
    ),
)

INSIGHT = (
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
    cfg.ListOpt(
        "avoid",
        default=["COMPUTE_STATUS_DISABLED"],
        help="Traits by which a host takes nothing new: where the root of a tree has one, what-if, survival, "
        "plans, shapes and claims under /-/ place nothing there, and what is there counts as it does. The "
        "default is what Nova marks its disabled hosts with; allocation candidates are not affected. Add the "
        "traits by which other services do the same; an empty list avoids nothing.",
    ),
)

DATABASE = (
    cfg.StrOpt(
        "connection",
        required=True,
        secret=True,
        help="SQLAlchemy URL of the database, for example "
        "postgresql://placement:secret@db.example.org/placement. SQLite, PostgreSQL, MariaDB and "
        "MySQL work.",
    ),
    cfg.StrOpt(
        "connection_parameters",
        default="",
        secret=True,
        help="Parameters appended to the URL, as in param1=value1&param2=value2.",
    ),
    cfg.StrOpt(
        "slave_connection",
        secret=True,
        help="URL of a read replica. Accepted, but not used: every read needs the newest state.",
    ),
    cfg.BoolOpt(
        "sqlite_synchronous",
        default=True,
        help="Wait for the disk at each commit on SQLite. Turn it off only for data that may be "
        "lost with the power.",
    ),
    cfg.StrOpt(
        "mysql_sql_mode",
        default="TRADITIONAL",
        help="SQL mode of MySQL and MariaDB sessions; empty keeps the server's. Modes that change what a "
        "statement means, such as ANSI_QUOTES and ORACLE, are left out.",
    ),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        help="Seconds after which a pooled connection is replaced. Keep it below the time after "
        "which the server or a firewall drops idle connections.",
    ),
    cfg.IntOpt(
        "max_pool_size",
        min=0,
        help="Connections kept open per process, 20 if unset; none is made before it is needed. As "
        "many as a process has threads are enough.",
    ),
    cfg.IntOpt(
        "max_retries",
        default=10,
        min=-1,
        help="How often a failed connection is tried again when the service or a command starts; -1 for "
        "ever. All attempts together take no longer than max_retries times retry_interval, and once the "
        "time of a connection. A connection that is lost later in the start counts as one, and the time "
        "begins anew.",
    ),
    cfg.IntOpt(
        "retry_interval",
        default=10,
        min=0,
        help="Seconds between connection attempts when the service starts.",
    ),
    cfg.IntOpt(
        "max_overflow",
        min=-1,
        help="Connections that may be opened beyond max_pool_size while all are in use, 10 if unset; "
        "-1 for no bound.",
    ),
    cfg.IntOpt(
        "connection_debug",
        default=0,
        min=0,
        max=100,
        help="Verbosity of SQL logging: 50 logs statements, 100 also their results.",
    ),
    cfg.BoolOpt(
        "connection_trace",
        default=False,
        help="Add the calling Python function to each SQL statement as a comment.",
    ),
    cfg.IntOpt(
        "pool_timeout",
        min=0,
        help="Seconds a request waits for a pooled connection before it is answered with 503.",
    ),
    cfg.IntOpt(
        "attempts_deadline",
        default=30,
        min=1,
        help="Seconds after which a request that lost its connection, or a race, is not tried again: "
        "503 or 409. What a single attempt waits for has deadlines of its own, in the URL of the "
        "connection. Lower it where clients give up sooner, raise it where a failover takes longer.",
    ),
    cfg.BoolOpt(
        "sync_on_startup",
        default=False,
        help="Upgrade the schema when the web application starts. Use it for trials and single "
        "nodes; in a cloud run placement-manage db sync before the new release starts.",
    ),
    cfg.IntOpt(
        "finish_after",
        default=3600,
        min=0,
        help="Seconds without a write of the OpenStack service to a database that was its own, after which "
        "this service declares the database its own as 'db sync --finish' does; 0 is never. "
        "Raise it where that service is to write again after a longer pause.",
    ),
    cfg.FloatOpt(
        "scrub_share",
        default=0.5,
        min=0,
        max=50,
        help="Percent of the time of one processor that all workers together take to compare what is derived "
        "(usage, what searches know) with what it is derived from, and to mend it where something else has "
        "written the database. 10,000 hosts are compared every minute or two so. Raise it to have changes by "
        "hand shown sooner; 0 compares nothing, and leaves all to placement-manage db scrub and db check.",
    ),
)

# The other options of this group belong to oslo.middleware.
HEALTHCHECK = (
    cfg.StrOpt(
        "path",
        default="/healthcheck",
        regex=r"^/[^/].*",
        help="Where the health check answers. There is none unless this or another option of the "
        "group is set. It also reports a database that cannot be reached.",
    ),
)

WORKAROUNDS = (
    cfg.BoolOpt(
        "optimize_for_wide_provider_trees",
        default=False,
        help="Drop hopeless combinations early in trees with many similar children. The set of "
        "valid candidates stays the same. Accepted for existing configurations.",
    ),
)

_OF_EXTENSIONS: tuple[cfg.Opt, ...] = tuple(
    option for module in installed.find_modules("options").values() for option in module.OPTIONS
)

BY_GROUP = {
    "DEFAULT": DEFAULT,
    "api": API,
    "placement": PLACEMENT,
    "insight": (*INSIGHT, *_OF_EXTENSIONS),
    "placement_database": DATABASE,
    "healthcheck": HEALTHCHECK,
    "workarounds": WORKAROUNDS,
}
