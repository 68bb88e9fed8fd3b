"""The answers as text for a terminal of 80 columns; with ``-f json`` they stay as they are."""

import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cliff.columns import FormattableColumn

from placement.printable import escape_unprintable

WIDTH = 60
"""The width of a value: 80 columns minus the names of the fields."""

BAR = 10
FULL, HIGH = 0.95, 0.75
RED, YELLOW, GREEN, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"


class WordedColumn(FormattableColumn):
    """A value with a function that returns its text for people."""

    def __init__(self, value: Any, words: Callable[[Any], str]) -> None:
        super().__init__(value)
        self._words = words

    def human_readable(self) -> str:
        """Return the text for people."""
        return self._words(self._value)


class PrintableColumn(FormattableColumn):
    """A name, unchanged for programs, without terminal control characters for people."""

    def human_readable(self) -> str:
        """Return the name on one line."""
        return escape_unprintable(str(self._value))


class CountColumn(FormattableColumn):
    """A count that can be a lower bound: a number for programs, a text that says so for people."""

    def human_readable(self) -> str:
        """Return the count in words."""
        return word_count(self._value)

    def machine_readable(self) -> int:
        """Return the number alone."""
        return int(self._value["count"])


def _wrap(lines: Iterable[str]) -> str:
    return "\n".join(
        "\n".join(textwrap.wrap(escape_unprintable(line), WIDTH, subsequent_indent="    "))
        for line in lines
    )


def word_count(told: Mapping[str, Any]) -> str:
    """Return a number of candidates in words."""
    return f"{told['count']}{'' if told['complete'] else ' or more'}"


def word_steps(told: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of the funnel: each step with the closest providers that it removed."""
    lines = []
    for step in told:
        group = "" if step["group"] in (None, "") else f" of group {step['group']}"
        name = f"{step['test']} {step['subject'] or ''}".strip()
        lines.append(f"{name}{group}: {step['left']} of {step['before']} {step['unit']} left")
        lines += [f"- {each['name']}: {_word_example(each)}" for each in step["examples"]]
    return _wrap(lines)


def _word_example(example: Mapping[str, Any]) -> str:
    if "asked" in example:
        units = ""
        if "step_size" in example:
            units = ", units {min_unit} to {max_unit} step {step_size}".format_map(example)
        return f"{example['free']} free of {example['asked']} asked{units}"
    for name in ("missing", "present", "member_of"):
        if name in example:
            return f"{name.replace('_', ' ')} {', '.join(example[name]) or 'nothing'}"
    return "removed"


def word_stopped(told: Mapping[str, Any] | None) -> str:
    """Return in words what ended the search."""
    return "" if told is None else _wrap([f"{told['why']}: {told['meaning']}"])


def word_relaxations(told: Iterable[Mapping[str, Any]]) -> str:
    """Return in words how many candidates dropping a demand would give, if there are any."""
    lines = []
    for each in told:
        if each["candidates"]["count"]:
            drops = each["drop"] if isinstance(each["drop"], list) else [each["drop"]]
            words = " and ".join(f"{drop['parameter']}={drop['value']}" for drop in drops)
            lines.append(f"without {words}: {word_count(each['candidates'])}")
    return _wrap(lines or ["leaving a demand out does not help"])


def word_largest(told: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of the largest amounts that would fit."""
    lines = []
    for each in told:
        group = f" of group {each['group']}" if each["group"] else ""
        would_do = "no amount" if each["would_do"] is None else each["would_do"]
        lines.append(f"{each['resource_class']}{group}: {would_do} would do, {each['asked']} asked")
    return _wrap(lines)


def word_about(told: Mapping[str, Any]) -> str:
    """Return the text of the verdict about one provider."""
    return _wrap([told["verdict"]])


def word_explanations(told: Iterable[Mapping[str, Any]]) -> str:
    """Return for each query how many candidates it has, or what prevents any."""
    parts = []
    for number, each in enumerate(told):
        lines = [f"{number}: {word_count(each['candidates'])} candidates"]
        if not each["candidates"]["count"]:
            lines += [word_stopped(each["stopped"] or each["combining"])]
            lines += [word_relaxations(each["relaxations"]), word_largest(each["largest"])]
        if "about" in each:
            lines.append(word_about(each["about"]))
        parts.append("\n".join(filter(None, lines)))
    return "\n\n".join(parts)


def word_capacities(told: Iterable[Mapping[str, Any]]) -> str:
    """Return for each query how often it fits after the queries before it, and what stops the next."""
    parts = []
    for number, each in enumerate(told):
        limits = [f"{name} in {trees} trees" for name, trees in each["limits"].items()]
        parts.append(f"{number}: {each['count']}; then {', '.join(limits) or 'nothing'} in the way")
    return _wrap(parts)


def word_places(told: Iterable[Mapping[str, Any]]) -> str:
    """Return places with their numbers as text."""
    return _wrap(f"{each['name'] or each['uuid']}: {each['count']}" for each in told)


def word_amounts(told: Mapping[str, Any]) -> str:
    """Return amounts with their names as text."""
    return _wrap(f"{name}: {amount}" for name, amount in told.items())


def word_avoided(trees: int) -> str:
    """Return in words how many trees were avoided, and why."""
    return _wrap([say_avoided(trees)])


def say_avoided(trees: int) -> str:
    """Return the words of :func:`word_avoided` as a sentence on one line."""
    if not trees:
        return "No tree has one of the traits of `avoid`."
    which, has = ("1 tree", "it has") if trees == 1 else (f"{trees} trees", "they have")
    return f"{which} took nothing new, since {has} one of the traits of `avoid`."


def _name_consumer(told: Mapping[str, Any]) -> str:
    """Return the uuid of a consumer, with its type and project as far as they are known."""
    kind = f" ({told['type']})" if told.get("type") else ""
    return f"{told['uuid']}{kind}{_of_project(told['project'])}"


def _of_project(project: str | None) -> str:
    return f" of project {project}" if project else ""


def word_consumers(told: Iterable[Mapping[str, Any]]) -> str:
    """Return the text that lists consumers with what they hold."""
    lines = []
    for each in told:
        held: dict[str, int] = {}
        for amounts_of in each["allocations"].values():
            for name, amount in amounts_of.items():
                held[name] = held.get(name, 0) + amount
        words = ", ".join(f"{name}={amount}" for name, amount in held.items())
        line = f"{_name_consumer(each)}: {words}"
        groups = each.get("groups")
        lines.append(f"{line}; kept out by {', '.join(groups)}" if groups else line)
    return _wrap(lines or ["none"])


def word_members(told: Iterable[Mapping[str, Any]]) -> str:
    """Return the text that lists the members of a group with their domains."""
    return "\n".join(
        f"{each['consumer_uuid']} in\n    "
        + "\n    ".join(map(escape_unprintable, each["domains"]))
        for each in told
    )


def word_losses(told: Iterable[Mapping[str, Any]]) -> str:
    """Return the list of the places that must not fail, the consumers without another place, and why."""
    lines = []
    for each in told:
        name = each["name"] or each["uuid"]
        lines.append(f"{name}: {each['homeless_count']} of {each['consumers']} consumers homeless")
        for consumer in each["homeless"]:
            subject = consumer["stopped"]["subject"] or ", ".join(consumer.get("groups", ()))
            why = f"{consumer['stopped']['why']} {subject}".strip()
            lines.append(f"- {consumer['uuid']}{_of_project(consumer['project'])}: {why}")
    return _wrap(lines or ["none"])


def draw_bar(share: float) -> str:
    """Return a bar that shows how full an inventory is, in colour on a terminal."""
    filled = min(round(share * BAR), BAR)
    drawn = "█" * filled + "░" * (BAR - filled)
    if not sys.stdout.isatty():
        return drawn
    colour = RED if share >= FULL else YELLOW if share >= HIGH else GREEN
    return f"{colour}{drawn}{PLAIN}"


def word_writes(told: Iterable[Mapping[str, Any]]) -> str:
    """Return in words who wrote what, and the state before and after."""
    lines = []
    for each in told:
        moment = each["at"][:19].replace("T", " ")
        lines.append(" ".join(filter(None, (moment, each["method"], each["route"]))))
        by = each["by"]
        if by["user_id"]:
            lines.append(f"- by {by['user_id']}{_of_project(by['project_id'])}")
        if each["request_id"]:
            lines.append(f"- {' for '.join(filter(None, _request_ids(each)))}")
        if each["consumer_uuid"]:
            owner = (each["after"] or each["before"])["project_id"]
            lines.append(f"- consumer {each['consumer_uuid']}{_of_project(owner)}")
        if each["provider_uuid"]:
            lines.append(f"- provider {each['provider_uuid']}")
        lines += [f"- {change}" for change in _word_changes(each)]
    return _wrap(lines or ["none"])


def _request_ids(written: Mapping[str, Any]) -> tuple[str, str | None]:
    return written["request_id"], written["global_request_id"]


def _word_changes(written: Mapping[str, Any]) -> list[str]:
    """Return what a write has changed, part by part."""
    sides = written["before"], written["after"]
    if written["consumer_uuid"]:
        return [" -> ".join(_word_amounts_held(side) for side in sides)]
    was, is_now = ({} if side is None else side for side in sides)
    lines = (
        [] if None not in sides else [f"it has {'come' if written['before'] is None else 'gone'}"]
    )
    for name in {**was, **is_now}:
        old, new = was.get(name), is_now.get(name)
        if old != new:
            lines.append(f"{name.replace('_', ' ')}: {_word_part(old)} -> {_word_part(new)}")
    return lines or ["as it was"]


def _word_amounts_held(side: Mapping[str, Any] | None) -> str:
    held = {} if side is None else side["resources"]
    return ", ".join(f"{name}={amount}" for name, amount in held.items()) or "nothing"


def _word_part(value: Any) -> str:
    if isinstance(value, Mapping):
        # Inventories are shown in short; the JSON output has the rest.
        value = [f"{name}={record['total']}" for name, record in value.items()]
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else str(value)
