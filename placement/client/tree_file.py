"""Provider trees as YAML files: reading with line numbers, and writing.

The format is ``schemas/provider_trees.json`` in this package; ``docs`` explains it by example.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, NamedTuple

import jsonschema
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from placement.client.exceptions import PlacementClientError
from placement.client.provider_tree import InventoryByClass, ProviderTree

FORMAT_VERSION = 1
# Aliases can make a small file stand for a huge tree.
NODES_AT_MOST = 500_000

_INVENTORY_FIELDS = (
    "total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio",
)  # fmt: skip


class FileProblem(NamedTuple):
    """A mistake in a file, and its line, counted from 1; 0 if the line is not known."""

    line: int
    text: str


class TreeFileError(PlacementClientError):
    """A tree file cannot be used; the text lists every problem with its place, one per line."""

    def __init__(self, source: str, problems: Iterable[FileProblem]) -> None:
        self.source = source
        self.problems = sorted(problems)
        super().__init__("\n".join(f"{source}:{p.line}: {p.text}" for p in self.problems))

    def __str__(self) -> str:
        return self.error


class FileTakeover(NamedTuple):
    """A ``takes_over`` entry: the allocations of another provider that move to this one."""

    line: int
    source: str
    resource_class: str
    as_class: str
    consumers: frozenset[str] | None
    split: bool


@dataclass
class FileProvider:
    """A provider in a file; None for attributes that the file does not state."""

    line: int
    name: str
    uuid: str | None
    parent: FileProvider | None = None
    inventory: InventoryByClass | None = None
    traits: set[str] | None = None
    aggregates: set[str] | None = None
    takeovers: list[FileTakeover] = field(default_factory=list)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    """Lines of the entry's ("inventories", class) and ("traits", trait)."""

    @property
    def root(self) -> FileProvider:
        """The root entry of this entry's tree."""
        entry = self
        while entry.parent is not None:
            entry = entry.parent
        return entry


@dataclass
class TreeFile:
    """The content of a file: providers, parents before children, and whether others are removed."""

    source: str
    providers: list[FileProvider]
    removes_unlisted: bool

    def find(self, name_or_uuid: str) -> FileProvider | None:
        """Find an entry by UUID, else by name."""
        for entry in self.providers:
            if entry.uuid == name_or_uuid:
                return entry
        return next((one for one in self.providers if one.name == name_or_uuid), None)

    def error(self, *problems: FileProblem) -> TreeFileError:
        """Make the exception that reports problems of this file."""
        return TreeFileError(self.source, problems)


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of the files."""
    text = resources.files("placement.client").joinpath("schemas/provider_trees.json")
    return json.loads(text.read_text(encoding="utf-8"))


def parse_bytes(content: bytes, source: str) -> TreeFile:
    """Read a file's content, which is UTF-8; TreeFileError with line numbers if it has mistakes."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TreeFileError(source, [FileProblem(line, "this is not UTF-8")]) from error
    return parse(text, source)


def parse(text: str, source: str) -> TreeFile:
    """Read a file's text; TreeFileError with line numbers if it has mistakes."""
    document = _load(text, source)
    validator = jsonschema.Draft202012Validator(schema())
    problems = [
        FileProblem(_find_line(document, error.absolute_path), _shorten(error))
        for error in validator.iter_errors(document)
    ]
    if problems:
        raise TreeFileError(source, problems)
    entries = list(_read_entries(document["providers"], None))
    problems = [*_find_duplicates(entries), *_link(entries), *_find_misfits(entries)]
    if problems:
        raise TreeFileError(source, problems)
    return TreeFile(source, _sort_parents_first(entries), document.get("unlisted") == "remove")


def render(tree: ProviderTree, roots: Iterable[str]) -> str:
    """Write the trees of these roots as a file that, applied, changes nothing."""
    document = {
        "placement_tree": FORMAT_VERSION,
        "unlisted": "remove",
        "providers": [_render_tree(tree, uuid) for uuid in roots],
    }
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


# ---- reading


def _load(text: str, source: str) -> Any:
    try:
        yaml = YAML(typ="rt", pure=True)
        if "&" in text:
            _check_finite(yaml.compose(text), source)
        return yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise TreeFileError(source, [FileProblem(line, str(error.problem or error))]) from error
    except YAMLError as error:
        raise TreeFileError(source, [FileProblem(0, str(error))]) from error
    except RecursionError as error:
        raise TreeFileError(source, [FileProblem(0, "nested too deeply; use `parent`")]) from error


def _check_finite(document: Node, source: str) -> None:
    """Refuse aliases that contain themselves, or that stand for too many values."""
    count = 0
    waiting: list[tuple[Node, tuple[int, ...]]] = [(document, ())]
    while waiting:
        node, above = waiting.pop()
        count += 1
        line = node.start_mark.line + 1
        if id(node) in above:
            text = "an alias contains itself: a provider cannot be its own ancestor"
            raise TreeFileError(source, [FileProblem(line, text)])
        if count > NODES_AT_MOST:
            raise TreeFileError(source, [FileProblem(line, f"more than {NODES_AT_MOST} values")])
        if not isinstance(node, ScalarNode):
            inside = (
                [*itertools.chain(*node.value)] if isinstance(node, MappingNode) else node.value
            )
            waiting.extend((one, (*above, id(node))) for one in inside)


def _find_line(document: Any, path: Iterable[str | int]) -> int:
    node, line = document, getattr(getattr(document, "lc", None), "line", 0)
    for step in path:
        places = getattr(node, "lc", None)
        if places is not None and places.data and step in places.data:
            line = places.data[step][0]
        node = node[step]
    return int(line or 0) + 1


def _shorten(error: jsonschema.ValidationError) -> str:
    where = ".".join(str(step) for step in error.absolute_path)
    text = error.message if len(error.message) <= 200 else f"{error.message[:200]}..."
    return f"{where}: {text}" if where else text


def _read_entries(shown: Any, parent: FileProvider | None) -> Iterator[FileProvider]:
    """Walk the nested providers, parents first."""
    for index, one in enumerate(shown):
        line = _find_line(shown, [index])
        entry = FileProvider(line, str(one["name"]), _read_text(one.get("uuid")), parent)
        for part in ("inventories", "traits"):
            for number, name in enumerate(one.get(part, ())):
                place = name if part == "inventories" else number
                entry.lines[part, str(name)] = _find_line(one, [part, place])
        if "inventories" in one:
            entry.inventory = {str(k): _read_record(v) for k, v in one["inventories"].items()}
        if "traits" in one:
            entry.traits = {str(trait) for trait in one["traits"]}
        if "aggregates" in one:
            entry.aggregates = {str(aggregate) for aggregate in one["aggregates"]}
        entry.takeovers = [
            _read_takeover(takeover, _find_line(one, ["takes_over", index]))
            for index, takeover in enumerate(one.get("takes_over", ()))
        ]
        if "parent" in one:
            entry.lines["parent", str(one["parent"])] = _find_line(one, ["parent"])
        yield entry
        yield from _read_entries(one.get("children", ()), entry)


def _read_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _read_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the number types of the YAML library, which remember their notation."""
    return {
        str(name): float(value) if isinstance(value, float) else int(value)
        for name, value in record.items()
    }


def _read_takeover(shown: Mapping[str, Any], line: int) -> FileTakeover:
    consumers = shown.get("consumers")
    return FileTakeover(
        line,
        str(shown["from"]),
        str(shown["class"]),
        str(shown.get("as", shown["class"])),
        None if consumers is None else frozenset(str(one) for one in consumers),
        bool(shown.get("split", False)),
    )


# ---- what the schema cannot say


def _find_duplicates(entries: list[FileProvider]) -> Iterator[FileProblem]:
    for attribute in ("name", "uuid"):
        first: dict[str, int] = {}
        for entry in entries:
            value = getattr(entry, attribute)
            if value is not None and value in first:
                yield FileProblem(
                    entry.line, f"{attribute} {value!r} is in line {first[value]} already"
                )
            first.setdefault(value, entry.line)


def _link(entries: list[FileProvider]) -> Iterator[FileProblem]:
    """Resolve ``parent`` keys, and find cycles."""
    by_name = {entry.name: entry for entry in entries}
    by_uuid = {entry.uuid: entry for entry in entries if entry.uuid}
    for entry in entries:
        for (part, reference), line in entry.lines.items():
            if part != "parent":
                continue
            entry.parent = by_uuid.get(reference) or by_name.get(reference)
            if entry.parent is None:
                yield FileProblem(line, f"parent {reference!r} is not in this file: list it too")
    for entry in entries:
        above, seen = entry.parent, {id(entry)}
        while above is not None and id(above) not in seen:
            seen.add(id(above))
            above = above.parent
        if above is entry:
            yield FileProblem(entry.line, f"provider {entry.name!r} is its own ancestor (a cycle)")
    # An entry below a cycle needs no report: the cycle has one.


def _find_misfits(entries: list[FileProvider]) -> Iterator[FileProblem]:
    for entry in entries:
        for takeover in entry.takeovers:
            what = takeover.as_class
            if what not in (entry.inventory or {}):
                text = f"{entry.name} takes over {what} and has none in its inventories"
                yield FileProblem(takeover.line, text)
            is_same_place = takeover.source in (entry.name, entry.uuid)
            if is_same_place and what == takeover.resource_class:
                yield FileProblem(takeover.line, f"{entry.name} takes over {what} from itself")


def _sort_parents_first(entries: list[FileProvider]) -> list[FileProvider]:
    depths: dict[int, int] = {}
    for entry in entries:
        depth, above = 0, entry.parent
        while above is not None:
            depth, above = depth + 1, above.parent
        depths[id(entry)] = depth
    return sorted(entries, key=lambda entry: depths[id(entry)])


# ---- writing


def _render_tree(tree: ProviderTree, root_uuid: str) -> dict[str, Any]:
    """Nest a tree's providers, siblings by name."""
    rendered: dict[str, dict[str, Any]] = {}
    for uuid in tree.get_provider_uuids(root_uuid):
        data = tree.data(uuid)
        rendered[uuid] = {
            "name": data.name,
            "uuid": data.uuid,
            "inventories": {
                name: {key: record[key] for key in _INVENTORY_FIELDS if key in record}
                for name, record in sorted(data.inventory.items())
            },
            "traits": sorted(data.traits),
            "aggregates": sorted(data.aggregates),
        }
        if uuid != root_uuid and data.parent_uuid is not None:
            siblings = rendered[data.parent_uuid].setdefault("children", [])
            siblings.append(rendered[uuid])
            siblings.sort(key=lambda one: one["name"])
    return rendered[root_uuid]
