"""Statements that are compiled once, with their texts, their lists, and the rows that they insert.

For each execution SQLAlchemy looks up the text of a statement and makes a context, a result and its columns,
which nothing here uses. Processor time in microseconds for the statement of GET /allocations/{uuid}, by
SQLAlchemy and by the driver's cursor (best of seven): SQLite 61 and 20, psycopg2 232 and 123, mysqlclient 150
and 72, PyMySQL 292 and 273. A claim has seven to nine statements. A statement built at run time is compiled
each time, which takes 50 to 250 microseconds.

A short list is filled up to the next of a few sizes by repeating its last value, so that a handful of texts
serve all usual lengths. A longer list is a single parameter: the drivers of PostgreSQL and MySQL write a
tuple as a list, and SQLite reads it from JSON.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from operator import itemgetter
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import (
    BindParameter,
    Boolean,
    ColumnElement,
    Dialect,
    Executable,
    FromClause,
    Integer,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import UserDefinedType

from placement.db import dialects, models
from placement.inventory_record import MAX_RATIO

T = TypeVar("T")
Row = tuple[Any, ...]
Convert = Callable[[Any], Any]
Parameters = Mapping[str, Any]

NOTHING: Parameters = {}
"""An empty set of parameters; a plain dictionary, as drivers take it."""

LARGEST = 2**63 - 1
"""The largest number that a column holds on any database."""

ROWS_AT_ONCE = 64
"""The number of rows that one statement inserts; everyday requests insert a few."""


class CompiledStatement:
    """A statement that is compiled once for each kind of database, and for each size of its lists.

    :param statement: a statement of SQLAlchemy with named parameters. An inserted or updated row must have a
        value for each column with a Python default.
    :param lists: the names of its lists (:func:`is_among`, :func:`by_key`) that are usually short. Any other
        list is a single parameter of any length.
    """

    def __init__(self, statement: Any, *lists: str) -> None:
        self.statement = statement
        self.shown_table = find_shown_table(statement)
        self._lists = lists
        self._texts: dict[tuple[Any, ...], DriverText] = {}

    def text(self, dialect: Dialect, parameters: Parameters) -> tuple["DriverText", Parameters]:
        """Return the text for this dialect and for lists of these lengths, and the parameters one by one."""
        sizes = {}
        if self._lists:
            parameters = {**parameters}
            for name in self._lists:
                values = parameters.pop(name)
                sizes[name] = size_for(len(values))
                parameters |= bind_list(name, values, sizes[name])
        # The key contains the version too: SQLAlchemy writes some things differently for older servers, and
        # after a failover the server may have another release.
        kind = (dialect.name, dialect.driver, dialect.server_version_info, *sizes.values())
        found = self._texts.get(kind)
        if found is None:
            # All texts are dropped, not only the oldest: everyday requests need few, and compile these again.
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            found = self._texts[kind] = DriverText(self.statement, dialect, sizes=sizes)
        return found, parameters


class Statement(NamedTuple):
    """A statement with its parameters."""

    compiled: CompiledStatement | Executable
    parameters: Parameters = NOTHING


def find_shown_table(statement: Any) -> str:
    """Return the table of the API that a statement changes, or ""."""
    if isinstance(statement, Statement):
        statement = statement.compiled
    if isinstance(statement, CompiledStatement):
        return statement.shown_table
    table = getattr(statement, "table", None)
    return table.name if isinstance(table, Table) and table.name in models.SHOWN else ""


class DriverText:
    """A statement for one kind of driver: its text, and the conversions of parameters and rows.

    :param writes_values: write the statement's constants into the text, if none of them comes from a request.
    :param sizes: the sizes of its lists, by name.
    :raises TypeError: the text would differ between calls.
    """

    def __init__(
        self,
        statement: Any,
        dialect: Dialect,
        *,
        writes_values: bool = True,
        sizes: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        compiled = statement.compile(dialect=dialect, compile_kwargs={"sizes": sizes})
        assert isinstance(compiled, SQLCompiler)
        # SQLAlchemy would compute these defaults at each execution; here they would keep their first values.
        if compiled.post_compile_params or compiled.insert_prefetch or compiled.update_prefetch:
            raise TypeError(f"lists or defaults that SQLAlchemy fills in: {compiled.string}")
        self.text = compiled.string
        self._columns = getattr(statement, "selected_columns", ())
        self._dialect = dialect
        # SQLite stores any value in any column; the other databases refuse it.
        self._typed = _find_typed(self._columns) if dialect.name == "sqlite" else []
        self._names = compiled.positiontup
        self._given: dict[str, Convert] = {}
        self._fixed: dict[str, Any] = {}
        self._converters: list[tuple[int, Convert]] | None = None
        for bind, name in compiled.bind_names.items():
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            if bind.required:
                if convert is not None:
                    self._given[name] = convert
            elif writes_values and self._names is None:
                # The constants are in the text, because a driver takes as long to bind a constant as any
                # other value.
                value = compiled.render_literal_value(bind.value, bind.type)
                self.text = self.text.replace(f"%({name})s", value)
            else:
                self._fixed[name] = bind.value if convert is None else convert(bind.value)

    def bind(self, parameters: Parameters) -> Any:
        """Return the parameters in the form that the driver accepts."""
        if self._fixed:
            parameters = {**self._fixed, **parameters}
        for name, convert in self._given.items():
            parameters = {**parameters, name: convert(parameters[name])}
        if self._names is None:
            return parameters
        # tuple() is faster on a list than on a generator.
        return tuple([parameters[name] for name in self._names])

    def convert(self, rows: Sequence[Row], description: Sequence[Any]) -> Sequence[Row]:
        """Return the driver's rows after the conversions that the driver does not make itself.

        On SQLite a value of another type than its column counts as what CAST makes of it in one of whole
        numbers, as the text of its bytes in one of texts, and as NULL in one of times (specification 06
        section 7.7).
        """
        for types, places, read in self._typed:
            if not _have_types(rows, places, types):
                rows = _convert_rows(rows, [(place, read) for place in places])
        # The converters are made with the first rows: for some types SQLAlchemy must know which type the
        # driver returns.
        if self._converters is None:
            converters = []
            for place, column in enumerate(self._columns):
                own_type = column.type.dialect_impl(self._dialect)
                convert = own_type.result_processor(self._dialect, description[place][1])
                if convert is not None:
                    converters.append((place, convert))
            # The list is assigned in one step: other threads share this text, and would otherwise use a
            # partial list.
            self._converters = converters
        if not self._converters or not rows:
            return rows
        try:
            return _convert_rows(rows, self._converters)
        except (TypeError, ValueError):
            # Catching the error of each value at once would cost a third of the conversion.
            safe = [(place, partial(_convert_or_none, convert)) for place, convert in self._converters]
            return _convert_rows(rows, safe)


Types = frozenset[type]

_DIGITS = re.compile(r"\s*[-+]?[0-9]+")
_NUMBERS: Types = frozenset({int, NoneType})
_TEXTS: Types = frozenset({str, NoneType})


def _find_typed(columns: Iterable[Any]) -> list[tuple[Types, list[int], Convert]]:
    """Return the places of whole numbers and of texts, with the types of their values and a conversion."""
    kinds = ((Integer, _NUMBERS, _read_number), (String, _TEXTS, read_text))
    found = (
        (types, [place for place, column in enumerate(columns) if isinstance(column.type, kind)], read)
        for kind, types, read in kinds
    )
    return [each for each in found if each[1]]


def _have_types(rows: Sequence[Row], places: Sequence[int], types: Types) -> bool:
    # For one place alone itemgetter would return no tuple.
    picked = map(itemgetter(*places, places[0]), rows)
    return types.issuperset(map(type, chain.from_iterable(picked)))


def _read_number(value: Any) -> Any:
    """Return a whole number of 64 bits, as SQLite's CAST makes it: the first digits of a text, or 0."""
    if type(value) in _NUMBERS:
        return value
    if not isinstance(value, float):
        first = _DIGITS.match(read_text(value))
        value = int(first[0]) if first else 0
    return int(max(-LARGEST, min(value, LARGEST)))


def read_text(value: Any) -> Any:
    """Return the text of bytes, with U+FFFD for each that is not UTF-8; any other value as it is."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _convert_rows(rows: Sequence[Row], converters: Sequence[tuple[int, Convert]]) -> list[Row]:
    changed = []
    for row in rows:
        values = list(row)
        for place, convert in converters:
            values[place] = convert(values[place])
        changed.append(tuple(values))
    return changed


def _convert_or_none(convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError):
        return None


SIZES = (1, 2, 4, 8, 16, 32)
ANY_SIZE = 0
"""The size of a list that is longer than the largest size, or is always a single parameter."""

MOST = 1000
"""The number of values in one list of a statement."""

MOST_TEXTS = 256
"""The number of texts that one statement keeps: six lists have many sizes, everyday requests few."""


class _ManyValues(UserDefinedType[Sequence[Any]]):
    """A list as one parameter. An empty list is a single NULL, which equals nothing."""

    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        if dialect.name == "sqlite":
            return json.dumps
        return lambda values: tuple(values) or (None,)


_MANY = {
    "sqlite": "(SELECT value FROM json_each({}))",
    # The drivers write the parentheses.
    "postgresql": "{}",
    "mysql": "{}",
}


class BySize(ColumnElement[Any]):
    """An expression, by default a condition, that depends on the size of the list ``name``.

    :param make: takes the size, one of ``SIZES`` or ``ANY_SIZE``, and uses the parameters of
        :func:`bind_list`.
    """

    # SQLAlchemy must not cache a text of it under a key without the size.
    inherit_cache = False

    type: Any = Boolean()

    def __init__(
        self, name: str, make: Callable[[int], ColumnElement[Any]], type_: Any = None
    ) -> None:
        self.name, self.make = name, make
        if type_ is not None:
            self.type = type_

    def self_group(self, against: Any = None) -> "BySize":
        """Behave as the made expression: SQLAlchemy would compare it with 1, and MySQL then uses no index."""
        return BySize(self.name, lambda size: self.make(size).self_group(against), self.type)

    def __invert__(self) -> "BySize":
        return BySize(self.name, lambda size: ~self.make(size), self.type)


@compiles(BySize)
def _compile_by_size(element: BySize, compiler: SQLCompiler, **options: Any) -> str:
    size = options.get("sizes", {}).get(element.name, ANY_SIZE)
    return compiler.process(element.make(size), **options)


def size_for(count: int) -> int:
    """Return the size that holds ``count`` values."""
    return next((size for size in SIZES if count <= size), ANY_SIZE)


def batches(values: Sequence[T], most: int = MOST) -> Iterator[Sequence[T]]:
    """Yield the values in lists that every database accepts; an everyday request needs one."""
    for start in range(0, len(values), most):
        yield values[start : start + most]


def step_of(inventories: FromClause) -> ColumnElement[int]:
    """Return ``step_size``, or 1 instead of a 0 written by hand, by which PostgreSQL cannot divide."""
    return func.coalesce(func.nullif(inventories.c.step_size, 0), 1)


def ratio_of(inventories: FromClause) -> ColumnElement[float]:
    """Return ``allocation_ratio``, or 0 instead of one that no client can set.

    NaN is larger than all numbers for PostgreSQL, and an infinite ratio makes no capacity that is a number.
    """
    ratio = inventories.c.allocation_ratio
    is_in_range = ratio.between(literal_column(f"-{MAX_RATIO}"), literal_column(f"{MAX_RATIO}"))
    return case((is_in_range, ratio), else_=literal_column("0.0"))


def capacity_of(inventories: FromClause) -> ColumnElement[float]:
    """Return the capacity, not rounded (specification 03 section 8)."""
    return (inventories.c.total - inventories.c.reserved) * ratio_of(inventories)


def is_among(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Return the condition that the column has a value of the list bound as ``name``."""

    def make(size: int) -> ColumnElement[bool]:
        if size == ANY_SIZE:
            return _is_in(column, bindparam(name, type_=_ManyValues()))
        if size == 1:
            return column == bindparam(f"{name}_0")
        return column.in_([bindparam(f"{name}_{index}") for index in range(size)])

    return BySize(name, make)


REACH = 2**56
"""The bound of summed values. No value of ours reaches it; a thousand of them fit into 64 bits."""


def within_reach(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the number, or its bound if damage has made it too large to be added up."""
    most: ColumnElement[Any] = literal_column(str(REACH))
    return case((column > most, most), (column < -most, -most), else_=column)


def is_one_of(column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    """Return the condition that the column has one of these values, for a statement built at run time."""
    return _is_in(column, bindparam(None, values, type_=_ManyValues(), unique=True))


def _is_in(column: ColumnElement[Any], values: BindParameter[Any]) -> ColumnElement[bool]:
    return column.bool_op("IN")(dialects.DialectText(_MANY, values))


def by_key(
    key: ColumnElement[int], column: ColumnElement[Any], keys: str, name: str
) -> ColumnElement[Any]:
    """Return the value in the list ``name`` at the position of the key in the list ``keys``.

    Other keys give NULL. The lists are at most as long as those of :func:`batch_pairs`.
    """

    def make(size: int) -> ColumnElement[Any]:
        if size == 1:
            return bindparam(f"{name}_0", type_=column.type)
        pairs = [
            (key == bindparam(f"{keys}_{index}"), bindparam(f"{name}_{index}", type_=column.type))
            for index in range(size)
        ]
        return case(*pairs)

    return BySize(keys, make, column.type)


def bind_list(name: str, values: Sequence[Any], size: int) -> dict[str, Any]:
    """Return the parameters that bind a list of this size with at least one value."""
    if size == ANY_SIZE:
        return {name: values}
    # The last value is repeated: that finds no row twice, whereas NULL would make NOT IN find no row at all.
    last = len(values) - 1
    return {f"{name}_{index}": values[min(index, last)] for index in range(size)}


def batch_pairs(values: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    """Yield keys with their values in lists for :func:`by_key`."""
    return batches(values, SIZES[-1])


AS_READ = ("row", "old")
"""The lists of :func:`are_unmoved`: ids, and the generations that were read."""


def are_unmoved(table: Table) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the condition that the rows still have the generations bound by :func:`as_read`.

    The ids are a separate condition, so that MariaDB uses the primary key and does not scan the table.
    """
    # The generation of a provider may be NULL, which is read as 0.
    column = table.c.generation
    generation = func.coalesce(column, 0) if column.nullable else column
    same = generation == by_key(table.c.id, table.c.generation, *AS_READ)
    return is_among(table.c.id, AS_READ[0]), same


def as_read(rows: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return the parameters of :func:`are_unmoved`: the ids with the generations that were read."""
    return dict(zip(AS_READ, map(list, zip(*rows, strict=True)), strict=True))


def value_of(key: ColumnElement[int], values: Mapping[int, Any]) -> Any:
    """Return a value for each key; it is written once if all are equal."""
    different = set(values.values())
    return different.pop() if len(different) == 1 else case(values, value=key)


def insert_of(
    table: Table, rows: Sequence[Parameters], before: str = "", after: str = ""
) -> Statement:
    """Return the statement that inserts rows, which all have the same columns.

    :param before: the words before INTO; ``after``: the clause after the values.
    """
    # The driver's executemany is not used, because psycopg2 sends a message for each row with it.
    differing = []
    parameters: dict[str, Any] = {}
    for name, value in rows[0].items():
        values = [row[name] for row in rows]
        # A value that all rows share is bound once.
        if values.count(value) == len(rows):
            parameters[name] = value
        else:
            differing.append(name)
            parameters.update({f"{name}_{index}": each for index, each in enumerate(values)})
    text_of = _insert(table, tuple(rows[0]), tuple(differing), len(rows), before, after)
    return Statement(text_of, parameters)


@lru_cache(maxsize=512)
def _insert(
    table: Table,
    names: tuple[str, ...],
    differing: tuple[str, ...],
    count: int,
    before: str,
    after: str,
) -> CompiledStatement:
    def keys(index: int) -> list[str]:
        return [f"{name}_{index}" if name in differing else name for name in names]

    rows = (f"({', '.join(f':{key}' for key in keys(index))})" for index in range(count))
    # The text consists of column names and placeholders, and nothing comes from a request.
    statement = text(
        f"INSERT {before}INTO {table.name} ({', '.join(names)}) VALUES {', '.join(rows)}{after}"  # noqa: S608
    )
    typed = {
        key: bindparam(key, type_=table.c[name].type)
        for index in range(count)
        for name, key in zip(names, keys(index), strict=True)
    }
    compiled = CompiledStatement(statement.bindparams(*typed.values()))
    compiled.shown_table = find_shown_table(insert(table))
    return compiled


@cache
def list_key(table: Table) -> str:
    """Return the columns that identify a row: its unique key, otherwise its primary key."""
    keys = [each for each in table.constraints if isinstance(each, UniqueConstraint)]
    assert len(keys) <= 1, f"{table.name} has several"
    return ", ".join(column.name for column in (keys[0] if keys else table.primary_key).columns)
