"""What is wrong with the operator's policy files (specification 01 section 14.4).

oslo.policy reads a check that it cannot parse as "never", and takes an unknown name for another service's.
"""

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from oslo_config import cfg

from placement.conf import yaml_file
from placement.policies import PREFIX, list_rules

NEARLY = 0.9
"""A name outside ``placement:`` that is at least so like one of our rules is taken for a misspelling of it.
Other services have rules with similar names, such as ``project_member_api`` (0.83)."""

SIMILAR = 0.75
"""A name within ``placement:``, where all are known, that is at least so like an unknown one is offered."""

JOINTS, NOT, OPEN, CLOSE = ("and", "or"), "not", "(", ")"
REFERENCE = "rule:"


@dataclass(frozen=True, eq=False)
class _Rule:
    place: str
    name: str
    check: object

    def __str__(self) -> str:
        return f"{self.place}: the rule {self.name}"


def faults(conf: cfg.ConfigOpts) -> list[str]:
    """Return what is wrong with the policy files: a sentence for each fault, with file and line."""
    found: list[str] = []
    rules: list[_Rule] = []
    for path in _paths(conf):
        try:
            rules += _rules(path)
        except yaml_file.Unusable as error:
            found.append(f"{error}.")
    for rule in rules:
        if wrong := _wrong(rule.check):
            found.append(f"{rule} cannot be understood: {wrong}.")
    return [*found, *_misspelt(rules, conf.oslo_policy.policy_default_rule)]


def _paths(conf: cfg.ConfigOpts) -> Iterator[Path]:
    """Return the files that oslo.policy reads, in its order."""
    options = conf.oslo_policy
    if file := conf.find_file(options.policy_file):
        yield Path(file)
    for name in options.policy_dirs:
        directory = conf.find_file(name)
        if directory and Path(directory).is_dir():
            names = next(os.walk(directory))[2]
            yield from (Path(directory, each) for each in sorted(names) if each[0] != ".")


def _rules(path: Path) -> list[_Rule]:
    document, lines = yaml_file.read(path, "a policy file maps names of rules to checks")
    return [
        _Rule(f"{path}:{lines.get(str(name), [1])[-1]}", str(name), check)
        for name, check in document.items()
    ]


# The language of checks


def _wrong(check: object) -> str | None:
    """Return why oslo.policy would not understand a check; None if it does."""
    if isinstance(check, str):
        return _wrong_text(check) if check else None
    if not isinstance(check, list):
        return "a check is a text, or a list of lists"
    for each in _flat(check):
        if not (isinstance(each, str) and _is_check(each)):
            return f"{each} is not a check, such as role:admin"
    return None


def _flat(check: list[Any]) -> list[Any]:
    """Return the checks of the old form: a list of alternatives, each a check or a list of checks."""
    return [each for part in check if part for each in (part if isinstance(part, list) else [part])]


def _wrong_text(text: str) -> str | None:
    depth, is_complete, last = 0, False, ""
    for word in _tokens(text):
        joins = word in (*JOINTS, CLOSE)
        if joins and not is_complete:
            return f"nothing stands before {word}"
        if is_complete and not joins:
            return f"neither and nor or stands between {last} and {word}"
        if not (joins or word in (OPEN, NOT) or _is_check(word)):
            return f"{word} is not a check, such as role:admin"
        depth += {OPEN: 1, CLOSE: -1}.get(word, 0)
        if depth < 0:
            return "a parenthesis is closed that was not opened"
        is_complete = word not in (*JOINTS, OPEN, NOT)
        last = word
    if not is_complete:
        return f"nothing stands after {last}" if last else "it is blank"
    return "a parenthesis is not closed" if depth else None


def _tokens(text: str) -> Iterator[str]:
    """Split a text as oslo.policy does: parentheses count at the beginning and the end of a word."""
    for word in text.split():
        opened = word.lstrip(OPEN)
        bare = opened.rstrip(CLOSE)
        yield from OPEN * (len(word) - len(opened))
        if bare:
            yield bare.lower() if bare.lower() in (*JOINTS, NOT) else bare
        yield from CLOSE * (len(opened) - len(bare))


def _is_check(word: str) -> bool:
    is_quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word in ("@", "!") or (":" in word and not is_quoted)


# Names


def _misspelt(rules: list[_Rule], default: str) -> Iterator[str]:
    """Say which names, and which references to names, are misspelt."""
    ours = _references_of_ours()
    references = {rule: _references(rule.check) for rule in rules}
    graph = ours | {rule.name: names for rule, names in references.items()}
    wanted = frozenset().union(*references.values())
    for rule, names in references.items():
        if rule.name not in ours and rule.name not in wanted:
            is_ours = rule.name.startswith(PREFIX)
            near = difflib.get_close_matches(rule.name, ours, 1, SIMILAR if is_ours else NEARLY)
            if near or is_ours:
                yield f"{rule.place}: there is no rule {rule.name}{_hint(near)}"
        # The default stands for every rule that does not exist.
        for name in sorted(names - graph.keys() if default not in graph else ()):
            if near := difflib.get_close_matches(name, graph, 1, NEARLY):
                yield f"{rule} refers to {name}, which does not exist{_hint(near)}"
        if rule.name in _reached(graph, names):
            yield f"{rule} refers to itself."


@cache
def _references_of_ours() -> dict[str, frozenset[str]]:
    """Return the names that mean something to the service, with those that they refer to."""
    ours: dict[str, frozenset[str]] = {}
    for rule in list_rules():
        ours[rule.name] = _references(rule.check_str)
        if rule.deprecated_rule:
            ours[rule.deprecated_rule.name] = frozenset()
    return ours


def _reached(graph: dict[str, frozenset[str]], names: frozenset[str]) -> set[str]:
    """Return the names, what they refer to, and so on."""
    reached: set[str] = set()
    new = set(names)
    while new:
        reached |= new
        new = {name for each in new for name in graph.get(each, ())} - reached
    return reached


def _hint(near: list[str]) -> str:
    return f"; did you mean {near[0]}?" if near else "."


def _references(check: object) -> frozenset[str]:
    if isinstance(check, str):
        words = list(_tokens(check))
    else:
        words = [str(each) for each in _flat(check)] if isinstance(check, list) else []
    return frozenset(word.removeprefix(REFERENCE) for word in words if word.startswith(REFERENCE))
