"""The judge of JSON, fastjsonschema, which decides whether a value is valid (specification 01 section 8).

The library compiles each schema to a Python function: it checks a claim in 9 us, 500 KB of a reshape in 11
ms, and 8 MiB of any body in a second. jsonschema, which takes 13 to 25 times as long, words the failures.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import fastjsonschema

Formats = Mapping[str, Callable[[str], bool]]

END_OF_LINE = re.compile(r"(?<!\\)\$(?=$|\||\))")


class Judges:
    """The compiled checks of schemas and their subschemas, with one meaning of the formats.

    Each is compiled on first use: all of them take a third of a second, which would delay the start of every
    worker; one takes 2 to 36 ms. One thread compiles at a time, because all threads of a new worker want the
    same check at once: its first sixteen claims took 300 to 400 ms, and take 100 to 140.
    """

    def __init__(self, formats: Formats) -> None:
        self._formats = formats
        # Schemas are found by identity, which is quick; a stored reference keeps the identity unique.
        self._made: dict[int, tuple[Any, Callable[[Any], Any]]] = {}
        self._compiling = threading.Lock()

    def accepts(self, schema: Any, value: Any) -> bool:
        """Return whether a value is valid under a schema, which must not be changed afterwards.

        :raises RecursionError: the value is nested too deeply.
        """
        try:
            self._judge_of(schema)(value)
        except fastjsonschema.JsonSchemaValueException:
            return False
        return True

    def find_suspects(self, values: Iterable[Any], schema: Any) -> Iterator[int]:
        """Yield the positions of the values that a schema refuses."""
        judge = self._judge_of(schema)
        for at, value in enumerate(values):
            try:
                judge(value)
            except fastjsonschema.JsonSchemaValueException:
                yield at

    def _judge_of(self, schema: Any) -> Callable[[Any], Any]:
        if id(schema) not in self._made:
            with self._compiling:
                # Another thread may have compiled it while this one waited.
                if id(schema) not in self._made:
                    judge = fastjsonschema.compile(_mend(schema), formats=self._formats, use_default=False)
                    self._made[id(schema)] = schema, judge
        return self._made[id(schema)][1]


def close_pattern(pattern: str) -> str:
    """Return a pattern for Python: in JSON Schema ``$`` is only the end, not a newline before it."""
    return END_OF_LINE.sub(r"\\Z", pattern)


def _mend(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that fastjsonschema interprets as JSON Schema interprets the given one."""
    mended = dict(schema)
    if "patternProperties" in schema:
        # The library does this for "pattern" itself.
        members = schema["patternProperties"].items()
        mended["patternProperties"] = {
            close_pattern(pattern): _mend(each) for pattern, each in members
        }
    if "properties" in schema:
        mended["properties"] = {name: _mend(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        mended["items"] = _mend(schema["items"])
    if "anyOf" in schema:
        mended["anyOf"] = [_mend(each) for each in schema["anyOf"]]
    if "uniqueItems" in schema:
        # The library puts the elements into a set before it checks each of them. A hundred thousand integers
        # with one hash, such as multiples of 2**61 - 1, would be compared with each other for hours.
        unique = {"uniqueItems": mended.pop("uniqueItems")}
        return {"allOf": [mended, unique]}
    return mended
