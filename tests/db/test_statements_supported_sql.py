"""No statement uses what some supported release of a database lacks.

Read is the SQL in the source, and every statement that is made once, as each kind of database has it.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.setup_file import ROOT

EVERYWHERE = frozenset(
    [
        *("ABS", "CAST", "COALESCE", "COUNT", "FLOOR", "LOG10", "MAX", "MIN", "NULLIF", "ROUND"),
        *("SUBSTR", "SUM"),
    ]
)
"""Functions of SQL that all of them have had for ever."""

FUNCTIONS = {
    # From 15 on.
    "postgresql": EVERYWHERE
    | {
        *("CLOCK_TIMESTAMP", "CURRENT_SETTING", "EXTRACT", "HAS_SEQUENCE_PRIVILEGE"),
        *("PG_ADVISORY_XACT_LOCK", "PG_GET_SERIAL_SEQUENCE", "PG_SEQUENCE_LAST_VALUE"),
        *("SET_CONFIG", "SETVAL"),
        *("STATEMENT_TIMESTAMP", "TIMEZONE", "UNNEST"),
        *("CONCAT_WS", "HASHFLOAT8", "HASHTEXT"),
    },
    # MySQL 8.0 to 9.7, MariaDB 10.11 to 12. CRC32 is a checksum, not one of the digests that left.
    "mysql": EVERYWHERE
    | {
        *("CONCAT", "CONCAT_WS", "CONNECTION_ID", "CRC32", "DATABASE", "GET_LOCK", "IF", "JSON_TABLE"),
        *("RELEASE_LOCK", "TIMESTAMPDIFF", "UTC_TIMESTAMP"),
        # In ON DUPLICATE KEY UPDATE: disliked by MySQL since 8.0.20, and MariaDB has nothing else.
        "VALUES",
    },
    # The last is ours (placement.db.engine).
    "sqlite": EVERYWHERE | {"JSON_EACH", "JULIANDAY", "STRFTIME", "TYPEOF", "PLACEMENT_CRC32"},
}
"""What every supported release has. Whoever adds one has looked it up in the manuals of all of them."""

LACKING = {
    r"\b(MD5|SHA1?)\(": "MySQL from 9.6 on",
    r"\b(PASSWORD|OLD_PASSWORD|ENCRYPT|ENCODE|DECODE|DES_ENCRYPT|DES_DECRYPT)\(": "MySQL from 8.0 on",
    r"\b(ANY_VALUE|BIN_TO_UUID|UUID_TO_BIN|REGEXP_LIKE|GROUPING)\(": "MariaDB",
    r"\bSQL_(NO_)?CACHE\b": "MySQL from 8.0 on",
    r"\bSHOW (MASTER|SLAVE)\b": "MySQL from 8.4 on",
    r"@@(SESSION\.|GLOBAL\.)?TX_(ISOLATION|READ_ONLY)\b": "MySQL from 8.0 on",
    r"\bFOR SHARE\b": "MariaDB",
    r"\bFOR (UPDATE|SHARE) OF\b": "MariaDB",
    r"\bAS NEW ON DUPLICATE\b": "MariaDB",
    r"\bWITH OIDS\b": "PostgreSQL from 12 on",
}
"""Functions and syntax by a pattern, and who lacks them. PostgreSQL may use what only the others lack."""

CALL = re.compile(r"(?<![\w.%'\"`])([A-Za-z_]\w*)\(")
TABLE = re.compile(r"\b(\w+)\([^()]*\) AS\s*\(")
"""What WITH names."""
WORDS = {"AND", "IN", "AS", "ON", "OR", "NOT", "EXISTS", "OVER", "INTO", "FROM", "KEY", "THEN", "WHEN", "BY"}
TYPES = {"VARCHAR", "CHAR", "DECIMAL", "NUMERIC", "SET"}


def calls(text: str) -> set[str]:
    """Return the functions that a text calls, in capitals."""
    tables = {name.upper() for name in TABLE.findall(text)}
    return {name.upper() for name in CALL.findall(text)} - WORDS - TYPES - tables


@pytest.fixture(scope="module")
def made_once() -> dict[str, list[str]]:
    """Return the statements that are made once, by the kind of database that they are compiled for.

    A fresh process makes them: in this one there are those that other tests, and other databases, have made.
    """
    words = [sys.executable, "-m", "tests.support.made_once"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def in_source() -> Iterator[str]:
    """Yield each text in the source of the floor that knows SQL, but its documentation."""
    for path in sorted((ROOT / "placement").glob("db/**/*.py")):
        tree = ast.parse(path.read_text())
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in told:
                    yield node.value
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("func"):
                yield f"{node.attr}()"


def lacking(text: str) -> list[str]:
    return [who for pattern, who in LACKING.items() if re.search(pattern, text, re.IGNORECASE)]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_statements_call_what_every_release_has(kind: str, made_once: dict[str, list[str]]) -> None:
    statements = made_once[kind]
    assert len(statements) > 50
    for text in statements:
        assert calls(text) <= FUNCTIONS[kind], text
        if kind == "mysql":
            assert not lacking(text), text
            assert "RETURNING" not in text, "MySQL"


def test_sql_in_the_source_calls_what_some_kind_has_in_every_release() -> None:
    known = frozenset().union(*FUNCTIONS.values())
    texts = list(in_source())
    assert calls(" ".join(texts)) >= {"GET_LOCK", "PG_ADVISORY_XACT_LOCK", "JSON_EACH"}
    for text in texts:
        assert calls(text) <= known, text
        assert not lacking(text), (text, lacking(text))
