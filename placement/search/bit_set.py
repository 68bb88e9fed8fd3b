"""Small sets of small numbers, each held in one whole number.

Bit n of a ``BitSet`` is set if n is in the set: ``a & b`` is what is in both, ``a | b`` what is in
either, ``a & ~b`` what is only in a, ``a >> n & 1`` tells whether n is in a, and 0 is empty. (Sets of
*providers* are masks over the provider index instead, see ``index_set``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BitSet = int
"""A set of slots, of positions or of demands; the name says of what."""


def members(bits: BitSet) -> Iterator[int]:
    """Yield the members, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def bit_set(numbers: Iterable[int]) -> BitSet:
    """Return the set of these distinct numbers."""
    return sum(1 << number for number in numbers)
