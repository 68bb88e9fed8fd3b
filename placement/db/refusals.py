"""The reasons why a database refuses a connection or a statement, and the remedies.

A kind of refusal is an entry of :data:`KINDS`: how to recognise its errors, whether it can pass by itself, a
sentence that says what is wrong, and one that says what to do.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import exc
from sqlalchemy.engine import URL

from placement.db import address, dialects, driver_errors
from placement.db.driver_errors import ErrorCodes

OPTION = "[placement_database]/connection"

POSTGRESQL, MYSQL, SQLITE = "postgresql", "mysql", "sqlite"


class Refusal(NamedTuple):
    """A kind of refusal.

    :param is_meant: recognises errors with a code.
    :param words: a pattern that recognises errors by their English text, if they lack a code: psycopg2 gives
        a failed connect no SQLSTATE, and PyMySQL gives all of them one number.
    :param wrong: what is wrong, after "The database ...".
    :param advice: what to do, by database or for all; may name ``{database}``, ``{user}`` and ``{option}``.
    :param passes: whether it can pass by itself, so that a start waits.
    """

    is_meant: ErrorCodes
    words: str
    wrong: str
    advice: str | Mapping[str, str]
    passes: bool = False

    def means(self, error: BaseException, text: str) -> bool:
        """Return whether an error with this text of the driver is of this kind."""
        return self.is_meant(error) or bool(self.words and re.search(self.words, text))


_WITHOUT_CODE = ErrorCodes(frozenset(), frozenset())

# The first matching kind counts, so narrow kinds precede wide ones.
KINDS = (
    Refusal(
        ErrorCodes(frozenset({"28P01"}), frozenset({1045, 1698})),
        r"password authentication failed|no password supplied",
        "does not let the user {user} in with this password",
        {
            POSTGRESQL: "Correct user and password in {option}; a password has %40 there for @, "
            "%2F for /, %25 for %.",
            MYSQL: "Correct user and password in {option}; a password has %40 there for @, %2F "
            "for /, %25 for %. An account holds for the hosts that it names (SELECT user, host "
            "FROM mysql.user).",
        },
    ),
    Refusal(
        _WITHOUT_CODE,
        r"pg_hba\.conf|(?:Ident|Peer|authentication) (?:authentication )?failed",
        "refuses connections of the user {user} from this host",
        "Add a line for this user, database and host to pg_hba.conf of the server, and reload it. "
        "A line with hostssl wants sslmode=require in {option}.",
    ),
    Refusal(
        ErrorCodes(frozenset(), frozenset({1129, 1130})),
        "",
        "refuses connections from this host",
        "Create the account for it (CREATE USER '{user}'@'HOST'). A host that is blocked after "
        "errors is freed by FLUSH HOSTS.",
    ),
    Refusal(
        ErrorCodes(frozenset({"28000"}), frozenset()),
        r"role .* does not exist|is not permitted to log in",
        "has no user {user} who may log in",
        "Create the user (createuser --pwprompt {user}), or allow the login (ALTER ROLE {user} "
        "LOGIN), or correct the name in {option}.",
    ),
    Refusal(
        ErrorCodes(frozenset({"3D000"}), frozenset({1049})),
        r"database .* does not exist",
        "does not exist",
        {
            POSTGRESQL: "Create it (createdb --encoding=UTF8 --owner={user} {database}), or "
            "correct its name, the last part of {option}.",
            MYSQL: "Create it (CREATE DATABASE {database} CHARACTER SET utf8mb4), or correct its "
            "name, the last part of {option}.",
        },
    ),
    Refusal(
        driver_errors.lacks_database,
        r"permission denied for database",
        "may not be used by the user {user}, or does not exist",
        {
            POSTGRESQL: "Allow it (GRANT CONNECT ON DATABASE {database} TO {user}), or correct "
            "the name of the database, the last part of {option}.",
            MYSQL: "Allow it (GRANT ALL ON {database}.* TO '{user}'@'HOST'); create it first if "
            "SHOW DATABASES does not list it. Or correct its name, the last part of {option}.",
        },
    ),
    Refusal(
        ErrorCodes(frozenset({"53300"}), frozenset({1040, 1203, 1226})),
        r"too many (?:clients|connections)|remaining connection slots",
        "cannot be reached: all its connections are taken",
        "Raise max_connections of the server, or lower [placement_database]/max_pool_size and "
        "max_overflow: every process of the service may take as many.",
        passes=True,
    ),
    Refusal(
        ErrorCodes(frozenset({"57P03"}), frozenset({1047, 1053, 3032, 4094})),
        r"the database system is|not yet accepting connections",
        "cannot be reached: its server starts, stops, or is not ready",
        {
            POSTGRESQL: "If that lasts, read the log of the server.",
            MYSQL: "If that lasts, read the log of the server; a node of Galera is ready when "
            "SHOW STATUS LIKE 'wsrep_ready' says ON, and the primary of a group when SELECT "
            "@@super_read_only says 0.",
        },
        passes=True,
    ),
    Refusal(
        _WITHOUT_CODE,
        r"invalid response to SSL|expected authentication request|Packet sequence|Malformed packet",
        "cannot be reached: what listens there is another program",
        "Correct host and port in {option}.",
        passes=True,
    ),
    Refusal(
        _WITHOUT_CODE,
        r"session is read-only|hot standby",
        "cannot be reached: none of its hosts takes writes",
        "Promote a standby, or name the primary in {option}.",
        passes=True,
    ),
    Refusal(
        ErrorCodes(frozenset(), frozenset({3159})),
        r"does not support SSL|does not support secure|certificate",
        "and this client do not agree on encryption",
        {
            POSTGRESQL: "Correct sslmode, sslrootcert, sslcert and sslkey in {option}, or turn "
            "ssl on at the server.",
            MYSQL: "Correct ssl_ca, ssl_cert and ssl_key in {option}, or the certificates of the "
            "server.",
        },
    ),
    Refusal(
        ErrorCodes(frozenset(), frozenset({2005})),
        r"could not translate host name|Name or service not known|name resolution|No address associated",
        "cannot be reached: the name of its host has no address",
        "Correct the host in {option}, or its entry in the DNS or in /etc/hosts.",
        passes=True,
    ),
    Refusal(
        _WITHOUT_CODE,
        r"socket .* failed: No such file|\[Errno 2\]|through socket",
        "cannot be reached: the socket of its server is not there",
        {
            POSTGRESQL: "Start the server, or correct the directory (host=) in {option}. Without "
            "a host, it is a socket of this machine.",
            MYSQL: "Start the server, or correct the path (unix_socket=) in {option}.",
        },
        passes=True,
    ),
    Refusal(
        _WITHOUT_CODE,
        # The C library of MariaDB reports 115 (in progress) instead of 111.
        r"Connection refused|Can't connect to server on .* \((?:111|115)\)",
        "cannot be reached: nothing listens at its host and port",
        {
            POSTGRESQL: "Start the server, or correct host and port in {option}. The server "
            "listens where its listen_addresses say, on localhost alone unless that is set.",
            MYSQL: "Start the server, or correct host and port in {option}. The server listens "
            "where its bind_address says.",
        },
        passes=True,
    ),
    Refusal(
        _WITHOUT_CODE,
        r"timeout expired|timed out|No route to host|unreachable",
        "cannot be reached: its host does not answer",
        "Check that the host is up, that no firewall stands between, and that host and port in "
        "{option} are those of the database.",
        passes=True,
    ),
    Refusal(
        ErrorCodes(frozenset({"53100"}), frozenset({1021, 1114}), frozenset({13})),
        "",
        "does not accept writes: its disk is full",
        "Make room on it.",
    ),
    Refusal(
        ErrorCodes(frozenset({"25006"}), frozenset({1036, 1290, 1836}), frozenset({8})),
        "",
        "does not accept writes: it is read-only",
        {
            POSTGRESQL: "It is a standby, or default_transaction_read_only is set. Name the "
            "primary in {option}; of several hosts, target_session_attrs=read-write finds it.",
            MYSQL: "It is a replica, or read_only was set. Name the primary in {option}, or SET "
            "GLOBAL read_only = 0.",
            SQLITE: "Let this user write the file and its directory; look whether the file system "
            "is mounted read-only.",
        },
    ),
    Refusal(
        ErrorCodes(frozenset(), frozenset({3098})),
        "",
        "does not accept writes: its group of servers has several primaries, and refuses tables with foreign "
        "keys that cascade",
        "Let one be primary, by the function group_replication_switch_to_single_primary_mode. Or start the "
        "whole group with group_replication_enforce_update_everywhere_checks = OFF.",
    ),
    Refusal(
        ErrorCodes(frozenset(), frozenset(), frozenset({14})),
        "",
        "cannot be opened",
        "Check the path of the file in {option}: its directory must exist, and this user must be "
        "allowed to write both.",
    ),
    Refusal(
        ErrorCodes(frozenset(), frozenset(), frozenset({26})),
        "",
        "is another kind of file",
        "Correct the path of the file in {option}, or put a backup of the database in its place.",
    ),
    Refusal(
        driver_errors.lacks_rights,
        "",
        "lets the user {user} do less than the service needs",
        {
            POSTGRESQL: "Grant SELECT, INSERT, UPDATE and DELETE on all its tables to {user}; for "
            "db sync, the user must own them.",
            MYSQL: "GRANT ALL ON {database}.* TO '{user}'@'HOST'; without db sync, SELECT, "
            "INSERT, UPDATE and DELETE are enough.",
        },
    ),
)

_UNREACHABLE = Refusal(
    _WITHOUT_CODE,
    "",
    "cannot be reached",
    "Check that the server runs, and that host and port in {option} are right.",
    passes=True,
)
_LOG = "Read the log of the server."
_OTHER = Refusal(_WITHOUT_CODE, "", "answered with an error", _LOG)


def find_kind(error: BaseException) -> Refusal | None:
    """Return the kind of an error of the database; None if the error is not a refusal."""
    if not isinstance(error, exc.DBAPIError):
        return None
    # Only the driver's text is searched: SQLAlchemy's text repeats the statement, which could contain any of
    # the words.
    text = str(error.orig)
    return next((each for each in KINDS if each.means(error, text)), None)


def passes(error: BaseException) -> bool:
    """Return whether a failed attempt to connect can succeed later."""
    # An unknown error may pass: waiting in vain only delays a start, giving up would cost the service.
    known = find_kind(error)
    return driver_errors.is_disconnect(error) and (known is None or known.passes)


def describe(error: exc.DBAPIError, url: URL) -> str:
    """Return what is wrong with the database of this URL, the remedy, and the driver's text."""
    usual = _UNREACHABLE if driver_errors.is_disconnect(error) else _OTHER
    known = find_kind(error) or usual
    backend = url.get_backend_name()
    backend = MYSQL if backend in dialects.MYSQL else backend
    advice = known.advice if isinstance(known.advice, str) else known.advice.get(backend, _LOG)
    # Without a database name, libpq uses the name of the user.
    user = url.username or "USER"
    names = {"user": user, "database": url.database or user, "option": OPTION}
    wrong, to_do = known.wrong.format(**names), advice.format(**names)
    return f"The database {address.show(url)} {wrong}. {to_do} ({quote_driver(error)})"


def quote_driver(error: exc.DBAPIError) -> str:
    """Return the first line of what the driver says; MySQL's error number follows it."""
    args: tuple[Any, ...] = getattr(error.orig, "args", ())
    if len(args) > 1 and isinstance(args[0], int):
        return f"{args[1]}, error {args[0]}"
    text = str(error.orig or error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error.orig).__name__
