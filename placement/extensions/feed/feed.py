"""The log of changes, for clients that follow a cloud (specification 07 section 10).

A token is a state of the log: the mark of each slot. As with the picture of a search, the transactions of a
slot are in the order of their commits, so that none is skipped that began early and ended late. During a
coexistence the token is a digest of checksums, which only shows that something has changed.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, Self

from placement import errors
from placement.db import cloud_rows, freshness, tree_rows
from placement.db.change_rows import SLOTS, Entry, Log
from placement.db.coexistence.checksums import ForeignChangeChecksums, read_checksums
from placement.db.database import Database, Snapshot
from placement.db.tree_rows import Root
from placement.errors import MalformedRequest

_MARKS = Struct(f">{SLOTS}q")
_CHECK_BYTES = 16


class TokenTooOld(errors.PlacementError):
    """The log no longer has the changes since the token."""

    status = 410
    code = "placement.token_too_old"
    reason = "token_too_old"
    retry = errors.Retry.AFTER_READING
    text = (
        "The changes since this token are no longer known. Ask for a new token, without 'since', and"
        " then read /-/trees again."
    )


class Token(NamedTuple):
    """A state of all trees.

    ``marks``: the marks of the log, slot by slot; empty without a usable log. ``check``: a digest of the
    entries that led to these marks, or, without marks, of all checksums.
    """

    marks: tuple[int, ...]
    check: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text that :meth:`show` made.

        :raises MalformedRequest: it is not such a text
        """
        try:
            given = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            given = b""
        marks, check = given[:-_CHECK_BYTES], given[-_CHECK_BYTES:]
        # The library skips characters outside its alphabet, so a damaged text is detected by comparison.
        if len(check) == _CHECK_BYTES and len(marks) in (0, _MARKS.size):
            token = cls(_MARKS.unpack(marks) if marks else (), check)
            if token.show() == text:
                return token
        raise MalformedRequest.for_rule(
            "query", detail="'since' is not a token of /-/changes", field="since"
        )

    def show(self) -> str:
        """Return the token as text for a URL."""
        marks = _MARKS.pack(*self.marks) if self.marks else b""
        return urlsafe_b64encode(marks + self.check).decode().rstrip("=")


class ChangedTree(NamedTuple):
    """A tree whose visible data may have changed.

    ``name``: the name of the root; None if the tree was deleted. ``usage_alone``: only usage and its
    consumers have changed.
    """

    root_uuid: str
    name: str | None
    usage_alone: bool


class FeedPage(NamedTuple):
    """The changes until ``next``; if not ``complete``, more changes follow ``next``."""

    next: Token
    trees: Sequence[ChangedTree]
    complete: bool = True


def find_token(db: Database) -> Token:
    """Return the present token. One statement, and the statements that remove expired holds.

    During a coexistence six statements, which cost as much as a refresh of the picture then.
    """
    # A follower does not search, so only this reading removes expired holds for it.
    log, _ = freshness.look_without_expired(db, lambda: db.read(cloud_rows.log), lambda found: found[1])
    if log is None:
        return Token((), _digest_checksums(db.snapshot(partial(read_checksums, before=None))))
    now = _token_at(log, {slot: mark for slot, (mark, _) in log.slots.items()})
    # With missing slots the token is unique each time: a write to such a slot would not show.
    return now or Token((), secrets.token_bytes(_CHECK_BYTES))


def read_changes(db: Database, since: Token | None, limit: int) -> FeedPage:
    """Return the trees that have changed since a token; none without one.

    One statement if nothing has changed, otherwise four at least.

    :param limit: the most trees to return, except that one entry of the log can name 90.
    :raises TokenTooOld: the log no longer has all changes
    """
    now = find_token(db)
    if since is None or since == now:
        return FeedPage(now, [])
    if not (since.marks and now.marks):
        raise TokenTooOld
    changes = db.snapshot(partial(_read_trees, since=since, limit=limit))
    if changes is None:
        raise TokenTooOld
    return changes


def _read_trees(tx: Snapshot, since: Token, limit: int) -> FeedPage | None:
    """Return the changes that the log names since a token; None if it does not reach back so far."""
    # The log is read again: only a newer entry names a provider that was deleted meanwhile.
    log, _ = cloud_rows.log(tx)
    if log is None:
        return None
    marks = dict(zip(range(SLOTS), since.marks, strict=True))
    if not _may_be_of(log, since):
        return None
    written: list[tuple[int, Entry]] = []
    for slot, mark in marks.items():
        entries = log.entries_since(slot, mark)
        if entries is None:
            return None
        # The oldest entries come first: an answer that is cut leaves the newer ones of a slot for the next.
        written += [(slot, entry) for entry in reversed(entries)]
    roots = tree_rows.find_roots(tx, {id_ for _, entry in written for id_ in entry.ids})
    alive = tree_rows.find_existing_roots(tx, {entry.left for _, entry in written if entry.left})
    found: dict[str, bool] = {}
    complete = True
    for slot, entry in written:
        named = _name_trees(entry, roots)
        if len(found.keys() | named) > limit:
            complete = False
            break
        found |= {root: found.get(root, True) and entry.stock_alone for root in named}
        marks[slot] = entry.mark
    names: dict[str, str] = dict(alive | set(roots.values()))
    trees = [ChangedTree(root, names.get(root), alone) for root, alone in found.items()]
    following = _token_at(log, marks)
    assert following is not None, "these marks were just read"
    return FeedPage(following, trees, complete)


def _name_trees(entry: Entry, roots: Mapping[int, Root]) -> set[str]:
    """Return the roots of the present trees of an entry's providers, and of the tree that they have left."""
    # A provider without a tree was deleted since, and the entry of its deletion names the tree.
    return {roots[id_].uuid for id_ in entry.ids if id_ in roots} | ({entry.left} - {""})


def _token_at(log: Log, marks: Mapping[int, int]) -> Token | None:
    """Return the token of a log that had these marks; None if slots are missing."""
    if log.slots.keys() != set(range(SLOTS)):
        return None
    # The check includes the last write of each slot: an earlier release steps marks by so little that a
    # restored backup without one write can reach its mark again, once in 30,000 times, but hardly with the
    # same entry.
    entries = [entry or "" for entry in _entries_at(log, marks)]
    return Token(tuple(marks[slot] for slot in range(SLOTS)), _digest(entries))


def _entries_at(log: Log, marks: Mapping[int, int]) -> list[str | None]:
    """Return the entries by which the slots came to these marks; None for each that was cut off."""
    return [log.entry_at(slot, marks[slot]) for slot in range(SLOTS)]


def _may_be_of(log: Log, token: Token) -> bool:
    """Return whether a log can have had this token, as far as it still has the entries that led to it.

    If a later write has cut an entry off, only its mark is left, and :meth:`Log.entries_since` checks the
    mark.
    """
    marks = dict(enumerate(token.marks))
    if log.slots.keys() != marks.keys():
        return False
    entries = _entries_at(log, marks)
    return None in entries or _digest(entries) == token.check


def _digest_checksums(checksums: ForeignChangeChecksums) -> bytes:
    by_block = (checksums.shape, checksums.contents, checksums.allocations, checksums.memberships)
    # Drivers return sums as numbers of several kinds.
    numbers = [[*map(int, each)] for each in (checksums.classes, checksums.consumers)]
    blocks = [[(key, *map(int, each[key])) for key in sorted(each)] for each in by_block]
    return _digest((numbers, blocks))


def _digest(values: object) -> bytes:
    return blake2b(repr(values).encode(), digest_size=_CHECK_BYTES).digest()
