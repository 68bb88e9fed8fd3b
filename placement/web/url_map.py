"""Find the route of a path: exact and case-sensitive, one segment at a time (contract 01 3.2)."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Match(NamedTuple, Generic[Value]):
    """The value of a route and the variables of the path."""

    value: Value
    variables: dict[str, str]


class _Node(Generic[Value]):
    def __init__(self) -> None:
        self.literals: dict[str, _Node[Value]] = {}
        self.variable: tuple[str, _Node[Value]] | None = None
        self.value: Value | None = None


class UrlMap(Generic[Value]):
    """Templates such as ``/traits/{name}``, and what each stands for.

    A variable stands for one or more characters other than ``/``; a literal goes before a variable.
    """

    def __init__(self, routes: Mapping[str, Value]) -> None:
        self._root: _Node[Value] = _Node()
        for template, value in routes.items():
            node = self._root
            for segment in template.split("/"):
                node = self._grow(node, segment)
            node.value = value

    def _grow(self, node: _Node[Value], segment: str) -> _Node[Value]:
        if not segment.startswith("{"):
            return node.literals.setdefault(segment, _Node())
        if node.variable is None:
            node.variable = (segment[1:-1], _Node())
        return node.variable[1]

    def match(self, path: str) -> Match[Value] | None:
        """Return what the path names, or None.

        :param path: PATH_INFO as WSGI gives it: percent-decoded, one character per byte.
        """
        node = self._root
        variables: dict[str, str] = {}
        for segment in path.split("/"):
            literal = node.literals.get(segment)
            if literal is not None:
                node = literal
            elif node.variable is not None and segment:
                name, node = node.variable
                variables[name] = _nameable(segment)
            else:
                return None
        return None if node.value is None else Match(node.value, variables)


def _nameable(segment: str) -> str:
    """Replace what no stored name or uuid contains (not ASCII, control characters) by ``?``.

    The result still names nothing, whatever the collation or the NUL handling of the database.
    """
    if segment.isascii() and segment.isprintable():
        return segment
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in segment)
