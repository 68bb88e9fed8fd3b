"""Integer programmes as rows, solved by SciPy (specification 10 section 4.1). Pure."""

import logging
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from math import ceil, floor, inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from placement.extensions.plans.planning.values import reaches
from placement.search.work import Work

LOG = logging.getLogger(__name__)

MOST_VARIABLES = 30_000
"""The number of variables beyond which a programme could not be solved within a deadline."""

OLDEST_SCIPY = (1, 15)
"""The first release that lets other threads run while it solves: 1.10.1 stopped them for 35 s."""

MOST_TIMES_DEARER = 1e6
"""The largest ratio of a step's cost to the cheapest one: a more expensive step counts as this much. The
solver is exact to a millionth of its sums. With smaller costs than the true ones its optimum is still a
bound.
"""

TOLERANCE = 1e-6
"""The relative error of the solver's bounds."""


class ProgrammeTooLarge(Exception):
    """A programme has more variables than can be solved within a deadline."""


class Solved(NamedTuple):
    """Whole values by column, or None. ``bound``: no solution costs less; infinite if none exists."""

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
    """Integer variables with costs and upper bounds, and rows that bound their sums."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.upper: list[float] = []
        self.starts, self.columns, self.factors = [0], list[int](), list[float]()
        self.low: list[float] = []
        self.high: list[float] = []

    def column(self, cost: float, upper: float) -> int:
        """Add a variable from 0 to ``upper``, and return its number.

        :raises ProgrammeTooLarge: there are too many variables
        """
        if len(self.costs) == MOST_VARIABLES:
            raise ProgrammeTooLarge
        self.costs.append(cost)
        self.upper.append(upper)
        return len(self.costs) - 1

    def row(self, factors: Mapping[int, float], low: float, high: float) -> None:
        """Bound the sum of variables, each times a factor."""
        self.columns += factors.keys()
        self.factors += factors.values()
        self.starts.append(len(self.columns))
        self.low.append(low)
        self.high.append(high)

    def solve(self, work: Work) -> Solved:
        """Return the cheapest solution found in time, and a lower bound of the cost.

        The first step solves the relaxation without the condition that values are whole. This bounds the
        cost, and gives for each variable the additional cost of a solution that uses it. Variables that no
        cheap solution can use are left out, more of them at first: for 2,500 hosts the whole programme takes
        10 s, and this way 1 s.
        """
        return _Problem(self).solve(work) if self.costs else Solved(None, inf)


class _Problem:
    """Rows in the solver's form, with costs scaled so that the smallest is 1."""

    def __init__(self, rows: Rows) -> None:
        from scipy.sparse import csr_array

        self._unit = min((cost for cost in rows.costs if cost > 0), default=1.0)
        self._costs = np.minimum(np.array(rows.costs) / self._unit, MOST_TIMES_DEARER)
        self._upper = np.array(rows.upper)
        shape = (len(rows.low), len(rows.costs))
        self._matrix: Any = csr_array((rows.factors, rows.columns, rows.starts), shape=shape)
        self._low, self._high = np.array(rows.low), np.array(rows.high)
        # Sums of whole costs are whole.
        self._is_whole = bool((self._costs == np.rint(self._costs)).all())

    def solve(self, work: Work) -> Solved:
        """Return the cheapest solution, and a lower bound of the cost."""
        relaxed, dearer = self._relax(work)
        bound, best, least = self._round_up(relaxed), None, inf
        # The first solve uses only variables without additional cost: a tenth of all, which usually contain
        # the cheapest solution.
        gap = 0.0
        while not reaches(bound, least) and bound < inf and work.check_time():
            left_out = dearer > gap + TOLERANCE
            values, cost, proven = self._search(np.where(left_out, 0.0, self._upper), work)
            if cost < least:
                best, least = values, cost
            bound = max(
                bound, min(proven, self._find_next(relaxed + gap) if left_out.any() else inf)
            )
            if proven < cost or not left_out.any():
                break
            # The limit doubles each time: costs can be a million times the cheapest, and each solve takes a
            # while.
            wider = min(max(2 * gap, 1.0, bound - relaxed), least - relaxed)
            gap = wider if wider > gap else inf
        return Solved(best, bound * self._unit)

    def _round_up(self, bound: float) -> float:
        """Return the least possible cost that is at least this, within the solver's tolerance."""
        if bound == inf:
            return inf
        bound = max(bound * (1 - TOLERANCE), 0.0)
        return float(ceil(bound - TOLERANCE)) if self._is_whole else bound

    def _find_next(self, cost: float) -> float:
        """Return the least possible cost above this one."""
        return floor(cost + TOLERANCE) + 1.0 if self._is_whole else cost

    def _relax(self, work: Work) -> tuple[float, Any]:
        """Return a bound, infinite without a solution, and the additional cost of each variable."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        equal = self._low == self._high
        below, above = np.isfinite(self._high) & ~equal, np.isfinite(self._low) & ~equal
        found = linprog(
            self._costs,
            A_ub=vstack([self._matrix[below], -self._matrix[above]]),
            b_ub=np.concatenate([self._high[below], -self._low[above]]),
            A_eq=self._matrix[equal],
            b_eq=self._high[equal],
            bounds=np.column_stack([np.zeros(len(self._upper)), self._upper]),
            options=_limit(work),
        )
        work.check_time()
        if found.status == 2:
            return inf, None
        if found.status != 0:
            return 0.0, np.zeros(len(self._costs))
        return float(found.fun), found.lower.marginals

    def _search(self, upper: Any, work: Work) -> tuple[Any, float, float]:
        """Return the best values found, their cost, and a lower bound of the cost."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        found = milp(
            self._costs,
            integrality=np.ones(len(self._costs)),
            bounds=Bounds(0, upper),
            constraints=LinearConstraint(self._matrix, self._low, self._high),
            options={"mip_rel_gap": 0.0, **_limit(work)},
        )
        work.check_time()
        if found.status == 2:
            return None, inf, inf
        proven = found.mip_dual_bound
        proven = 0.0 if proven is None or not isfinite(proven) else self._round_up(float(proven))
        if found.x is None:
            return None, inf, proven
        values = np.rint(found.x).astype(np.int64)
        cost = float(self._costs @ values)
        # At the optimum both are equal except for the rounding of floats.
        return values, cost, cost if found.status == 0 else min(proven, cost)


def _limit(work: Work) -> dict[str, Any]:
    seconds = work.remaining_s() - work.reserve_s
    return {"time_limit": max(seconds, 0.01)} if isfinite(seconds) else {}
