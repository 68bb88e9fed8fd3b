"""Directives that write reference pages from the code, so that the two cannot drift apart.

``placement-options``, ``placement-policies``, ``placement-command``, ``placement-schema``,
``placement-errors``, ``placement-windows`` and ``placement-search-reasons``; each makes
reStructuredText and has it parsed.
"""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Formatter
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from oslo_config import cfg
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sqlalchemy import Column, Table

import placement
from docs._tools import search_examples
from docs._tools.url_page import CLAIMS, INSIGHT, ROUTES
from placement import conf, errors, policies
from placement.cmd.completion import MODULES
from placement.db import models
from placement.search.tally import Reason, Stop

HELP_WIDTH = "90"
KINDS = {
    "IntOpt": "integer",
    "FloatOpt": "number",
    "BoolOpt": "boolean",
    "StrOpt": "string",
    "ListOpt": "list",
}
NO_ERRORS_IN = (
    "placement.client",
    "placement.db.migrations",
    "placement.tests",
    "placement.wsgi.",
)

Lines = Iterator[str]


class Generated(SphinxDirective):
    """A directive whose content is the lines of :meth:`lines`."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Parse the lines in the place of the directive."""
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)

    def lines(self) -> Lines:
        """Return reStructuredText."""
        raise NotImplementedError


def heading(text: str, mark: str) -> Lines:
    """Return a title with its underline."""
    yield from (text, mark * len(text), "")


def table(rows: Iterable[Iterable[str]], widths: str = "auto") -> Lines:
    """Return a table whose first row is its header."""
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in rows:
        mark = "   * - "
        for cell in row:
            yield (mark + cell).rstrip()
            mark = "     - "
    yield ""


# -- options -----------------------------------------------------------------------------------


class Options(Generated):
    """Every option of the service, group by group."""

    def lines(self) -> Lines:
        """Return one section per group and one definition per option."""
        for group, options in conf.list_opts():
            yield from heading(f"[{group}]", "-")
            for option in options:
                yield from described(group, option)


def described(group: str, option: cfg.Opt) -> Lines:
    """Return the definition of one option."""
    words = [kind_of(option)]
    if option.required:
        words.append("required")
    words.append(default_of(option))
    yield f"``{option.name}``"
    yield f"   *{', '.join(word for word in words if word)}*"
    yield ""
    yield f"   {option.help}"
    for value, meaning in (
        getattr(option.type, "choices", None) and option.type.choices.items()
    ) or ():
        yield ""
        yield f"   * ``{value}``: {meaning}"
    for old in option.deprecated_opts:
        yield ""
        yield f"   Also read from ``[{old.group or group}]/{old.name or option.name}`` (deprecated)."
    yield ""


def kind_of(option: cfg.Opt) -> str:
    """Return the type of an option with its bounds, in words."""
    kind = option.type
    name = KINDS[type(option).__name__]
    lowest, highest = getattr(kind, "min", None), getattr(kind, "max", None)
    bounds = ""
    if lowest is not None and highest is not None:
        bounds = f" from {lowest} to {highest}"
    elif lowest is not None:
        bounds = f" from {lowest}"
    return name + bounds + (", secret" if option.secret else "")


def default_of(option: cfg.Opt) -> str:
    """Return the default of an option, in words."""
    default = option.sample_default if option.sample_default is not None else option.default
    if default is None:
        return "" if option.required else "unset by default"
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    return f"default {shown}" if shown else "empty by default"


# -- policies ----------------------------------------------------------------------------------


class Policies(Generated):
    """Every policy rule with its default."""

    def lines(self) -> Lines:
        """Return a table of the base rules and one of the rules of the API."""
        rules = policies.list_rules()
        yield from heading("Base rules", "-")
        base = [rule for rule in rules if not hasattr(rule, "operations")]
        yield from table(
            [
                ("rule", "default", "with ``enforce_new_defaults`` false also", "who"),
                *((f"``{r.name}``", f"``{r.check_str}``", former(r), r.description) for r in base),
            ]
        )
        yield from heading("Rules of the API", "-")
        yield from table(
            [
                ("rule", "default", "operations"),
                *(
                    (f"``{rule.name}``", f"``{rule.check_str}``", operations(rule))
                    for rule in rules
                    if hasattr(rule, "operations")
                ),
            ]
        )


def former(rule: Any) -> str:
    """Return the check that is added while the former defaults hold."""
    return f"``{rule.deprecated_rule.check_str}``" if rule.deprecated_rule else ""


def operations(rule: Any) -> str:
    """Return the operations that the rule guards."""
    return ", ".join(f"``{each['method']} {each['path']}``" for each in rule.operations)


# -- commands ----------------------------------------------------------------------------------


class Command(Generated):
    """The ``--help`` of a command."""

    required_arguments = 1
    optional_arguments = 0
    option_spec = {"actions-only": directives.flag}

    def lines(self) -> Lines:
        """Return the help as a literal block."""
        program, *words = self.arguments[0].split()
        text = help_of(program, words)
        if "actions-only" in self.options:
            text = text[: text.index("\noptions:")]
        yield from (".. code-block:: text", "")
        yield from (f"   {line}".rstrip() for line in text.split("\n"))


def help_of(program: str, words: list[str]) -> str:
    """Return the output of ``program words --help``, as printed under the program's own name."""
    code = (
        "import importlib, sys; sys.argv[0] = sys.argv.pop(1); "
        "sys.exit(importlib.import_module(sys.argv.pop(1)).main())"
    )
    module = f"placement.cmd.{MODULES[program]}"
    done = subprocess.run(
        [sys.executable, "-c", code, program, module, *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": HELP_WIDTH, "NO_COLOR": "1"},
        cwd=Path(__file__).resolve().parents[2],
    )
    return done.stdout.rstrip()


# -- schema ------------------------------------------------------------------------------------


class Schema(Generated):
    """The tables of the database."""

    def lines(self) -> Lines:
        """Return one section per table."""
        for found in sorted(models.whole_metadata().tables.values(), key=lambda each: each.name):
            yield from heading(found.name, "-")
            yield from table([("column", "type", "", ""), *map(column_row, found.columns)])
            yield from keys(found)


def column_row(column: Column[Any]) -> tuple[str, str, str, str]:
    """Return the row of one column."""
    default = column.server_default
    return (
        f"``{column.name}``",
        f"``{column.type!r}``".replace("()", ""),
        "primary key" if column.primary_key else "" if column.nullable else "not null",
        ", ".join(
            [f"→ ``{key.target_fullname}``" for key in sorted(column.foreign_keys, key=str)]
            + ([f"server default ``{default.arg}``"] if default is not None else [])
        ),
    )


def keys(found: Table) -> Lines:
    """Return the unique constraints and the indexes of a table."""
    for constraint in sorted(found.constraints, key=lambda each: str(each.name)):
        if type(constraint).__name__ == "UniqueConstraint":
            yield f"* unique ``{constraint.name}`` ({', '.join(constraint.columns.keys())})"
    for index in sorted(found.indexes, key=lambda each: str(each.name)):
        yield f"* index ``{index.name}`` ({', '.join(index.columns.keys())})"
    yield ""


# -- errors ------------------------------------------------------------------------------------


class Errors(Generated):
    """Every error that the service declares."""

    def lines(self) -> Lines:
        """Return one section per status, with the code, the text and the meaning of each error."""
        declared = [error for error in all_errors() if specific(error)]
        for status in sorted({error.status for error in declared}):
            yield from heading(str(status), "-")
            yield from table(
                [
                    ("code", "reason, retry", "text", "meaning"),
                    *(
                        row
                        for error in declared
                        if error.status == status
                        for row in error_rows(error)
                    ),
                ],
                "20 20 35 25",
            )


def all_errors() -> list[type[errors.PlacementError]]:
    """Return every subclass of PlacementError that any module of the service declares."""
    for module in pkgutil.walk_packages(placement.__path__, "placement."):
        if not module.name.startswith(NO_ERRORS_IN):
            importlib.import_module(module.name)
    found = set(below(errors.PlacementError))
    return sorted(found, key=lambda each: (each.code, each.text, each.__name__))


def below(kind: type[Any]) -> Iterator[type[Any]]:
    """Return all subclasses, of any depth."""
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def specific(error: type[errors.PlacementError]) -> bool:
    """Return whether the class itself is raised, rather than only its subclasses."""
    return not error.__subclasses__() and not error.__name__.startswith("_")


def error_rows(error: type[errors.PlacementError]) -> Iterator[tuple[str, str, str, str]]:
    """Return the row of one error, or of each text of one that has several."""
    meaning = " ".join((error.__doc__ or "").split("\n\n")[0].split())
    # Some docstrings begin with the number of their check in specification 04 section 3.5.
    meaning = re.sub(r"^[A-Z]\d+(, [A-Z]\d+)*: ", "", meaning)
    meaning = meaning[:1].upper() + meaning[1:]
    malformed = issubclass(error, errors.Malformed)
    texts = error.texts if malformed else {"": error.text}
    for rule, text in texts.items():
        given = error.codes.get(rule, error.code) if malformed else error.code
        reason = error.reasons.get(rule, error.reason) if malformed else error.reason
        program = f"``{reason}``, ``{error.retry}``"
        code = "" if given == errors.UNDEFINED_CODE else f"``{given}``"
        fields = {name: f"<{name}>" for _, name, _, _ in Formatter().parse(text) if name}
        shown = " ".join(text.format(**fields).split())
        yield code, program, f"``{shown}``" if shown else "", meaning


# -- windows -----------------------------------------------------------------------------------


class Windows(Generated):
    """The route table with its microversion windows."""

    def lines(self) -> Lines:
        """Return one table."""
        rows = [("path", "method", "since", "until", "policy rule")]
        for path, methods in (ROUTES | INSIGHT | CLAIMS).items():
            for method, actions in methods.items():
                for action in actions:
                    until = "" if action.until is None else f"1.{action.until}"
                    rule = f"``placement:{action.rule}``" if action.rule else ""
                    rows.append(
                        (f"``{path or '(empty)'}``", method, f"1.{action.since}", until, rule)
                    )
        yield from table(rows)


# -- the search --------------------------------------------------------------------------------


class SearchReasons(Generated):
    """The tests of a search and the reasons for an empty answer, each with an example."""

    def lines(self) -> Lines:
        """Return the cloud of the examples and one table of each."""
        yield from (f"* {search_examples.described(each)}" for each in search_examples.CLOUD)
        yield ""
        for title, constants, examples in (
            ("step", Reason, search_examples.STEPS),
            ("stopped", Stop, search_examples.ENDS),
        ):
            rows = [
                (
                    f"``{each}``",
                    each.meaning + (f"\n\n       ``{examples[each]}``" if each in examples else ""),
                )
                for each in constants
            ]
            yield from table([(title, "meaning, and an example"), *rows], "25 75")


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known to Sphinx."""
    for name, directive in (
        ("placement-options", Options),
        ("placement-policies", Policies),
        ("placement-command", Command),
        ("placement-schema", Schema),
        ("placement-errors", Errors),
        ("placement-windows", Windows),
        ("placement-search-reasons", SearchReasons),
    ):
        app.add_directive(name, directive)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
