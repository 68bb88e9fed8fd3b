"""The types of arguments of commands: numbers within bounds, which argparse refuses with its own error."""

import argparse
import math
from collections.abc import Callable

LARGEST = 1e9
"""The upper bound of numbers that need not be whole."""


def whole_number(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return the type of a whole number from ``lowest`` to ``highest``; None is no upper bound."""
    bounds = f"must be at least {lowest}" if highest is None else f"must be from {lowest} to {highest}"

    def parse(text: str) -> int:
        # int() alone also takes underscores, spaces and digits of other scripts.
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise argparse.ArgumentTypeError(bounds)
        given = int(text)
        if given < lowest or (highest is not None and given > highest):
            raise argparse.ArgumentTypeError(bounds)
        return given

    return parse


def number(lowest: float = 0.0) -> Callable[[str], float]:
    """Return the type of a number from ``lowest`` to :data:`LARGEST`, such as a time in seconds."""

    def parse(text: str) -> float:
        try:
            # float() alone also takes underscores.
            given = math.nan if "_" in text else float(text)
        except ValueError:
            given = math.nan
        # NaN compares as false.
        if not lowest <= given <= LARGEST:
            raise argparse.ArgumentTypeError(f"must be a number from {lowest:g} to {LARGEST:g}")
        return given

    return parse
