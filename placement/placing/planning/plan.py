"""Plans of a cloud: the one door of planning (specification 10). Pure."""

from collections.abc import Collection, Sequence

from placement.placing.members import Members
from placement.placing.planning.values import Costs, Goal, Limits, NoPlan, Occupant, Plan
from placement.search.cloud import Cloud
from placement.search.request import NameSets
from placement.search.work import Work


def list_trees(cloud: Cloud, known: NameSets | None, goal: Goal, work: Work) -> Sequence[int]:
    """Return the roots of the trees whose occupants matter most to a goal, those first that should be read first.

    :raises UnknownTraitName, UnknownClassName: as the search does.
    """
    raise NotImplementedError


def make_plan(
    cloud: Cloud,
    known: NameSets | None,
    occupants: Sequence[Occupant],
    members: Members,
    goal: Goal,
    costs: Costs,
    limits: Limits,
    unread: Collection[int],
    work: Work,
) -> Plan | NoPlan:
    """Return the cheapest plan that is found. The cloud stays as it is.

    :param occupants: all consumers of all trees but the unread ones.
    :param members: the groups of the occupants.
    :param unread: roots of trees whose occupants are not known: they stay.
    :raises UnknownTraitName, UnknownClassName: as the search does.
    """
    raise NotImplementedError
