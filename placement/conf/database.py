"""Options of ``[placement_database]`` (specification 06 section 4.4)."""

from oslo_config import cfg

GROUP = "placement_database"

OPTIONS = (
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
        help="SQL mode of MySQL and MariaDB sessions; empty keeps the server's.",
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
        "time of a connection.",
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
)
