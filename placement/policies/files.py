"""The faults in the operator's policy files (specification 01 section 14.4).

oslo.policy reads an unknown check as "never", and assumes that an unknown name belongs to another service.
"""

import ast
import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from placement.conf import yaml_file
from placement.policies import GUARDED, PREFIX, list_rules

NEARLY = 0.9
"""The similarity above which a name outside ``placement:`` counts as a misspelling of one of our rules.
Other services have rules with similar names, such as ``project_member_api`` (0.83).
"""

SIMILAR = 0.75
"""The similarity above which a name is offered instead of an unknown one, if all names are known, as
within ``placement:``.
"""

JOINTS, NOT, OPEN, CLOSE = ("and", "or"), "not", "(", ")"
REFERENCE = "rule:"
QUOTES = "'\""

TARGET = ("project_id", "user_id")
"""The names that a check may use as ``%(…)s`` (specification 01 section 14.2)."""

_NAMED = re.compile(r"%\((.*?)\)")

FORMER_FILE = "policy.json"


class Fault(NamedTuple):
    """A sentence with file and line.

    :param forbids_start: whether the rules cannot be what the operator meant. Other faults are logged, and
        oslo.policy's reading of the file counts.
    """

    text: str
    forbids_start: bool = False


@dataclass(frozen=True, eq=False)
class _Rule:
    place: str
    name: str
    check: object

    def __str__(self) -> str:
        return f"{self.place}: the rule {self.name}"


def find_faults(conf: cfg.ConfigOpts) -> list[Fault]:
    """Return the faults of the policy files, in their order."""
    found: list[Fault] = []
    name, former = conf.oslo_policy.policy_file, conf.find_file(FORMER_FILE)
    if former and choose_file(conf) == name == "policy.yaml" and conf.find_file(name) is None:
        text = (
            f"{former} is not read, only {name} is: convert it with oslopolicy-convert-json-to-yaml, "
            "or name it in [oslo_policy]/policy_file."
        )
        found.append(Fault(text))
    rules: list[_Rule] = []
    for path in _list_files(conf):
        try:
            document, lines = yaml_file.read(path, "a policy file maps names of rules to checks")
        except yaml_file.Unusable as error:
            found.append(Fault(f"{error}.", forbids_start=True))
            continue
        # The last of two rules with the same name counts.
        rules += [
            _Rule(f"{path}:{lines.get(str(rule), [1])[-1]}", str(rule), check)
            for rule, check in document.items()
        ]
    names = _Names(rules, conf.oslo_policy.policy_default_rule)
    for rule in rules:
        found += _find_faults_of_rule(rule, names)
    return found


def choose_file(conf: cfg.ConfigOpts) -> str:
    """Return the file that oslo.policy looks for: before release 5 ``policy.json``, if only that exists."""
    pick = getattr(policy, "pick_default_policy_file", None)
    name: str = pick(conf) if pick else conf.oslo_policy.policy_file
    return name


def _list_files(conf: cfg.ConfigOpts) -> Iterator[Path]:
    """Return the files that oslo.policy reads, in its order."""
    if file := conf.find_file(choose_file(conf)):
        yield Path(file)
    for name in conf.oslo_policy.policy_dirs:
        directory = conf.find_file(name)
        if directory and Path(directory).is_dir():
            names = next(os.walk(directory))[2]
            yield from (Path(directory, each) for each in sorted(names) if each[0] != ".")


def _find_faults_of_rule(rule: _Rule, names: "_Names") -> Iterator[Fault]:
    if why := _explain_unreadable(rule.check):
        yield Fault(f"{rule} cannot be understood: {why}.", forbids_start=True)
        return
    is_used = names.serve_an_operation(rule)
    if isinstance(rule.check, str) and (why := _explain_syntax(rule.check)):
        yield Fault(f"{rule} cannot be understood: {why}.", forbids_start=is_used)
        return
    yield from map(Fault, names.find_misspelt(rule, is_used))
    if why := _explain_odd(rule.check):
        yield Fault(f"{rule} {why}")
        return
    for word in _list_checks(rule.check):
        if word not in ("@", "!") and ":" not in word:
            yield Fault(
                f"{rule} has {word}, which is not a check and counts as never{names.guess(word)}"
            )
        elif is_used and (why := _explain_never(word)):
            # Other services have their own kinds of checks.
            yield Fault(f"{rule} has {word}: {why}")


# The language of checks


def _explain_unreadable(check: object) -> str | None:
    """Return why oslo.policy cannot read a file that has this for a check; None if it can."""
    if not check or isinstance(check, str):
        return None
    if not isinstance(check, Iterable):
        return "a check is a text, or a list of lists"
    for part in check:
        if part and not isinstance(part, Iterable):
            return f"{part} is not a check, such as role:admin"
    return None


def _explain_odd(check: object) -> str | None:
    """Return how oslo.policy reads a value that is neither a text nor a list."""
    if isinstance(check, (str, list)):
        return None
    if isinstance(check, dict) and check:
        meant = ", ".join(f"{name}:{value}" for name, value in check.items())
        return f"is a mapping, of which only the names count; did you mean {meant}?"
    return f"has the value {json.dumps(check, default=str)}, which counts as always; did you mean @ or !?"


def _explain_syntax(text: str) -> str | None:
    """Return why oslo.policy cannot parse a text, which then means "never"; None if it can."""
    if not text:
        return None
    depth, is_complete, last = 0, False, ""
    for word in _split_words(text):
        joins = word in (*JOINTS, CLOSE)
        if joins and not is_complete:
            return f"nothing stands before {word}"
        if is_complete and not joins:
            return f"neither and nor or stands between {last} and {word}"
        if len(word) > 1 and word[0] == word[-1] and word[0] in QUOTES:
            return f"{word} is not a check, such as role:admin"
        depth += {OPEN: 1, CLOSE: -1}.get(word, 0)
        if depth < 0:
            return "a parenthesis is closed that was not opened"
        is_complete = word not in (*JOINTS, OPEN, NOT)
        last = word
    if not is_complete:
        return f"nothing stands after {last}" if last else "it is blank"
    return "a parenthesis is not closed" if depth else None


def _split_words(text: str) -> Iterator[str]:
    """Split a text as oslo.policy does: parentheses count at the beginning and the end of a word."""
    for word in text.split():
        opened = word.lstrip(OPEN)
        bare = opened.rstrip(CLOSE)
        yield from OPEN * (len(word) - len(opened))
        if bare:
            yield bare.lower() if bare.lower() in (*JOINTS, NOT) else bare
        yield from CLOSE * (len(opened) - len(bare))


def _list_checks(check: object) -> list[str]:
    """Return the single checks; the old form is a list of alternatives, each a check or a list of checks."""
    if isinstance(check, str):
        return [word for word in _split_words(check) if word not in (*JOINTS, NOT, OPEN, CLOSE)]
    words: list[str] = []
    for part in check if isinstance(check, Iterable) else ():
        each_of = isinstance(part, Iterable) and not isinstance(part, str)
        words += map(str, part if each_of else [part]) if part else ()
    return words


def _explain_never(word: str) -> str | None:
    """Return why a check never admits any caller; None if it can admit one."""
    kind, _, match = word.partition(":")
    # Another rule or another program decides these checks.
    elsewhere = {"rule", *(point.name for point in entry_points(group="oslo.policy.rule_checks"))}
    if not match or kind in elsewhere:
        return None
    caller = RequestContext(user_id="-", project_id="-", roles=["-"], service_roles=["-"])
    known = caller.to_policy_values()
    # The old form is used, since a check in it can contain blanks.
    one: Any = policy.RuleDefault("one", [[word]])  # type: ignore[arg-type]
    try:
        one.check(dict.fromkeys(TARGET, "-"), known, None)
    except Exception as error:
        return f"oslo.policy cannot decide it ({error}), and who depends on it is refused."
    first = kind.split(".")[0]
    if kind != "role" and first not in known and not _is_literal(kind):
        near = difflib.get_close_matches(first, ["rule", "role", *known], 1, SIMILAR)
        hint = _write_hint(near, f":{match}")
        return f"nothing is known as {first}, and it counts as never{hint}"
    for name in _NAMED.findall(match):
        if name not in TARGET:
            near = difflib.get_close_matches(name, TARGET, 1, SIMILAR)
            return f"nothing is known as {name}, and it counts as never{_write_hint(near)}"
    return None


def _is_literal(kind: str) -> bool:
    """Return whether the kind is a value, as in ``True:%(enabled)s``, to compare with the other side."""
    try:
        ast.literal_eval(kind)
    except ValueError:
        return False
    return True


# Names


class _Names:
    """The names of rules, and the references between them.

    :param default: the rule used instead of each missing one.
    """

    def __init__(self, rules: list[_Rule], default: str) -> None:
        self._last = {rule.name: rule for rule in rules}
        self._ours = self._find_references_of_ours()
        self._graph = self._ours | {
            name: _find_references(rule.check) for name, rule in self._last.items()
        }
        self._default = frozenset({default} & self._graph.keys())
        self._wanted = frozenset().union(*(_find_references(rule.check) for rule in rules))
        self._used = self._follow(frozenset(PREFIX + name for name in GUARDED))

    def _find_references_of_ours(self) -> dict[str, frozenset[str]]:
        """Return the names that the service uses, with the names to which they refer."""
        ours: dict[str, frozenset[str]] = {}
        for rule in list_rules():
            ours[rule.name] = _find_references(rule.check_str)
            if former := rule.deprecated_rule:
                ours.setdefault(former.name, frozenset())
                override = self._last.get(former.name)
                # A former name in a file replaces the new one, unless its rule only refers to the new one.
                if override and override.check != REFERENCE + rule.name:
                    ours[rule.name] = frozenset({former.name})
        return ours

    def _follow(self, names: frozenset[str]) -> set[str]:
        """Return the names with all names to which they refer, directly or not."""
        reached: set[str] = set()
        new = set(names)
        while new:
            reached |= new
            new = {name for each in new for name in self._graph.get(each, self._default)} - reached
        return reached

    def serve_an_operation(self, rule: _Rule) -> bool:
        """Return whether an operation uses this rule, also by reference, and no later file replaces it."""
        return rule.name in self._used and self._last[rule.name] is rule

    def find_misspelt(self, rule: _Rule, is_used: bool) -> Iterator[str]:
        """Return faults if the name, or a reference of the rule, is misspelt."""
        names = _find_references(rule.check)
        if rule.name not in self._ours and rule.name not in self._wanted:
            is_ours = rule.name.startswith(PREFIX)
            near = difflib.get_close_matches(
                rule.name, self._ours, 1, SIMILAR if is_ours else NEARLY
            )
            if near or is_ours:
                yield f"{rule.place}: there is no rule {rule.name}{_write_hint(near)}"
        for name in sorted(names - self._graph.keys() if not self._default else ()):
            near = difflib.get_close_matches(name, self._graph, 1, NEARLY)
            if near or is_used:
                yield f"{rule} refers to {name}, which does not exist{_write_hint(near)}"
        if rule.name in self._follow(names):
            yield f"{rule} refers to itself."

    def guess(self, word: str) -> str:
        """Return a question on what a word that is not a check was meant to be."""
        near = difflib.get_close_matches(word, self._graph, 1, NEARLY)
        return _write_hint([REFERENCE + near[0]] if near else [f"role:{word}"])


def _write_hint(near: list[str], end: str = "") -> str:
    return f"; did you mean {near[0]}{end}?" if near else "."


def _find_references(check: object) -> frozenset[str]:
    return frozenset(
        word.removeprefix(REFERENCE) for word in _list_checks(check) if word.startswith(REFERENCE)
    )
