"""Integer programmes as rows, which SciPy solves (specification 10 section 4.1). Pure."""

import logging
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from math import ceil, inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from placement.search.work import Work

LOG = logging.getLogger(__name__)

MOST_VARIABLES = 20_000
"""A programme of more would not be solved within a deadline."""

OLDEST_SCIPY = (1, 15)
"""The first release that was seen to let other threads run while it solves: 1.10.1 stopped them for 35 s."""

TOLERANCE = 1e-6
"""How far the solver's values may be off, where the smallest cost is 1."""


class ProgrammeTooLarge(Exception):
    """A programme has more variables than are solved within a deadline."""


class Solved(NamedTuple):
    """Whole values by column, None if none were found. ``bound``: none cost less, infinite if none exist."""

    values: Any
    bound: float


@cache
def load_solver() -> bool:
    """Import SciPy, which takes half a second, and return whether its solver can be used.

    A release that is too old counts as missing, and the log says so, once for each process.
    """
    try:
        found = metadata.version("scipy")
    except metadata.PackageNotFoundError:
        return False
    if tuple(map(int, found.split(".")[:2])) < OLDEST_SCIPY:
        oldest = ".".join(map(str, OLDEST_SCIPY))
        LOG.warning(
            "SciPy %s is too old to prove plans, and is not used: install %s or newer",
            found,
            oldest,
        )
        return False
    import scipy.optimize  # noqa: F401

    return True


class Rows:
    """Whole variables with costs and upper ends, and rows that bound their sums."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.upper: list[float] = []
        self._starts, self._columns, self._factors = [0], list[int](), list[float]()
        self._low: list[float] = []
        self._high: list[float] = []

    def column(self, cost: float, upper: float) -> int:
        """Add a variable from 0 to ``upper``, and return its number.

        :raises ProgrammeTooLarge:
        """
        if len(self.costs) == MOST_VARIABLES:
            raise ProgrammeTooLarge
        self.costs.append(cost)
        self.upper.append(upper)
        return len(self.costs) - 1

    def row(self, factors: Mapping[int, float], low: float, high: float) -> None:
        """Bound the sum of variables, each times a factor."""
        self._columns += factors.keys()
        self._factors += factors.values()
        self._starts.append(len(self._columns))
        self._low.append(low)
        self._high.append(high)

    def solve(self, work: Work) -> Solved:
        """Return the cheapest solution that is found in the time, and what none is cheaper than."""
        if not self.costs:
            return Solved(None, inf)
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        shape = (len(self._low), len(self.costs))
        matrix: Any = csr_array((self._factors, self._columns, self._starts), shape=shape)
        unit = min((cost for cost in self.costs if cost > 0), default=1.0)
        costs = np.array(self.costs) / unit
        seconds = work.remaining_s() - work.reserve_s
        options: dict[str, Any] = {"mip_rel_gap": 0.0}
        if isfinite(seconds):
            options["time_limit"] = max(seconds, 0.01)
        found = milp(
            costs,
            integrality=np.ones(len(costs)),
            bounds=Bounds(0, np.array(self.upper)),
            constraints=LinearConstraint(matrix, np.array(self._low), np.array(self._high)),
            options=options,
        )
        work.look()
        if found.status == 2:
            return Solved(None, inf)
        bound = found.mip_dual_bound
        bound = 0.0 if bound is None or not isfinite(bound) else max(float(bound), 0.0)
        if (costs == np.rint(costs)).all():
            # Costs are whole multiples of the smallest one, so each sum of them is.
            bound = float(ceil(bound - TOLERANCE))
        values = None if found.x is None else np.rint(found.x).astype(np.int64)
        return Solved(values, bound * unit)
