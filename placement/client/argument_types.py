"""The types of arguments of commands: names that are not empty, and numbers within bounds.

argparse refuses other values with its own error, and exit code 2.
"""

import argparse
import math
import re
from collections.abc import Callable

_TRAIT = re.compile("[A-Z0-9_]{1,255}")

LARGEST = 1e9
"""The upper bound of numbers that need not be whole."""


def non_empty(text: str) -> str:
    """Return a name, uuid, query, path or time as it was given, unless there is nothing in it.

    Otherwise an unset shell variable would select the first of all objects, or lift a filter.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def trait_names(text: str) -> list[str]:
    """Return the names of traits that commas separate; an empty text gives an empty list."""
    names = text.split(",") if text else []
    for each in names:
        if not _TRAIT.fullmatch(each):
            raise argparse.ArgumentTypeError(
                f"{each!r} is no name of a trait, which has A to Z, 0 to 9 and _ alone"
            )
    return names


def whole_number(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return the type of a whole number from ``lowest`` to ``highest``; None means no upper bound."""
    bounds = f"must be at least {lowest}" if highest is None else f"must be from {lowest} to {highest}"

    def parse(text: str) -> int:
        # The pattern refuses underscores, spaces and digits of other scripts, which int() would accept.
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise argparse.ArgumentTypeError(bounds)
        given = int(text)
        if given < lowest or (highest is not None and given > highest):
            raise argparse.ArgumentTypeError(bounds)
        return given

    return parse


def number(
    lowest: float = 0.0, highest: float = LARGEST, *, is_above: bool = False
) -> Callable[[str], float]:
    """Return the type of a number from ``lowest`` to ``highest``, such as a time in seconds.

    :param is_above: refuse ``lowest`` itself too.
    """
    start = f"above {lowest:g} and at most" if is_above else f"from {lowest:g} to"
    bounds = f"must be a number {start} {highest:.15g}"

    def parse(text: str) -> float:
        try:
            # The pattern refuses underscores, which float() would accept.
            given = math.nan if "_" in text else float(text)
        except ValueError:
            given = math.nan
        # Every comparison with NaN is false.
        if not lowest <= given <= highest or (is_above and given == lowest):
            raise argparse.ArgumentTypeError(bounds)
        return given

    return parse
