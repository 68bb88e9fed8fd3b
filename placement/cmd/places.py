"""The providers on which a server can have allocations: its host's tree, and providers that share with it."""

from collections import defaultdict
from collections.abc import Iterable

from placement.db import place_rows
from placement.db.database import Database


class Places:
    """All providers, by tree."""

    def __init__(self, database: Database) -> None:
        rows, pairs = database.snapshot(
            lambda tx: (place_rows.providers(tx), place_rows.sharing(tx))
        )
        self._above = {row.id: (row.root_id, row.parent_id) for row in rows}
        self._id_by_name = {row.name: row.id for row in rows}
        self.names = {row.uuid: row.name or row.uuid for row in rows}
        uuids = {row.id: row.uuid for row in rows}
        self._trees: dict[int, set[str]] = defaultdict(set)
        for row in rows:
            self._trees[self._find_root(row.id)].add(row.uuid)
        self._shared: dict[int, set[str]] = defaultdict(set)
        for sharing_id, id_ in pairs:
            if sharing_id in uuids and id_ in uuids:
                self._shared[self._find_root(id_)].add(uuids[sharing_id])

    def tree(self, name: str) -> frozenset[str]:
        """Return the uuids of the tree of the provider of this name, empty if it does not exist."""
        id_ = self._id_by_name.get(name)
        return frozenset() if id_ is None else frozenset(self._trees[self._find_root(id_)])

    def own(self, names: Iterable[str]) -> frozenset[str]:
        """Return the uuids of the trees of these providers, and of the providers that share with them."""
        ids = (self._id_by_name.get(name) for name in names)
        roots = {self._find_root(id_) for id_ in ids if id_ is not None}
        return frozenset().union(*(self._trees[root] | self._shared.get(root, set()) for root in roots))

    def _find_root(self, id_: int) -> int:
        """Return the root of a provider by its stored root, otherwise by walking up its parents."""
        passed: set[int] = set()
        while id_ not in passed:
            passed.add(id_)
            root, parent = self._above[id_]
            above = parent if root in (None, id_) else root
            if above is None or above not in self._above:
                return id_
            id_ = above
        # In a damaged database parents can form a cycle.
        return min(passed)
