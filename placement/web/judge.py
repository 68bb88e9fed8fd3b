"""The judge of JSON: fastjsonschema, which says whether a value is valid (specification 01 section 8).

It makes a function of Python of each schema: a claim is judged in 9 us, 500 KB of a reshape in 11 ms, 8 MiB
of anything in a second. jsonschema, which takes 13 to 25 times as long, finds the words for what is wrong.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import fastjsonschema

Formats = Mapping[str, Callable[[str], bool]]

END_OF_LINE = re.compile(r"(?<!\\)\$(?=$|\||\))")


class Judges:
    """The functions that judge by schemas and by schemas within them, under one meaning of the formats.

    Each is made when it is first asked: to make all of them takes a third of a second, which every worker
    would start later, and 2 to 12 ms are one schema's.
    """

    def __init__(self, formats: Formats) -> None:
        self._formats = formats
        # Schemas are found by identity, which is quick; a schema that is kept here keeps its own.
        self._made: dict[int, tuple[Any, Callable[[Any], Any]]] = {}

    def accepts(self, schema: Any, value: Any) -> bool:
        """Say whether a value is valid under a schema, which nobody may change afterwards.

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
        made = self._made.get(id(schema))
        if made is None:
            judge = fastjsonschema.compile(_mend(schema), formats=self._formats, use_default=False)
            self._made[id(schema)] = made = (schema, judge)
        return made[1]


def close_pattern(pattern: str) -> str:
    """Return a pattern as Python spells it: to JSON Schema ``$`` is the end, not also a newline before it."""
    return END_OF_LINE.sub(r"\\Z", pattern)


def _mend(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that means to fastjsonschema what the given one means in JSON Schema."""
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
        # The library puts the elements into a set before it looks at each of them, and a hundred thousand
        # integers of one hash, such as the multiples of 2**61 - 1, would be compared with each other for
        # hours.
        unique = {"uniqueItems": mended.pop("uniqueItems")}
        return {"allOf": [mended, unique]}
    return mended
