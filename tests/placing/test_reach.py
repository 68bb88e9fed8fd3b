"""Where a part of a consumer may go, given what else it keeps (specification 07 section 4.2)."""

import pytest

from placement.placing.reach import KeptParts, PartMove, Reach
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.records import ProviderRecord

EAST, WEST = "east", "west"


def provider(
    number: int, *aggregates: str, root: int | None = None, shares: bool = False
) -> ProviderRecord:
    return ProviderRecord(
        number,
        f"{number}",
        0,
        root,
        number if root is None else root,
        traits=frozenset([SHARING_TRAIT] if shares else []),
        aggregates=frozenset(aggregates),
    )


@pytest.fixture
def cloud() -> Cloud:
    """Two hosts in the east, the second with a device; two in the west, the second in the east too; pools."""
    made = Cloud()
    made.replace(
        [
            provider(1, EAST),
            provider(2, EAST),
            provider(20, root=2),
            provider(3, WEST),
            provider(4, EAST, WEST),
            provider(5, EAST, shares=True),
            provider(6, WEST, shares=True),
            provider(7, EAST, WEST, shares=True),
        ]
    )
    return made


def ask(cloud: Cloud, part: list[int], keeps: list[int]) -> set[int] | None:
    """Return the ids of the providers that a part may go to."""
    index = cloud.index_of
    kept = KeptParts.from_providers(cloud, [index[each] for each in keeps])
    allowed = Reach(cloud).mark_allowed([index[each] for each in part], kept)
    return None if allowed is None else set(cloud.ids[allowed].tolist())


def test_a_host_goes_where_all_pools_that_stay_are_reached(cloud: Cloud) -> None:
    assert ask(cloud, [1], [5]) == {1, 2, 20, 4, 5, 7}
    assert ask(cloud, [1], [6]) == {3, 4, 6, 7}
    assert ask(cloud, [1], [5, 6]) == {4, 7}
    assert ask(cloud, [1], [2, 20]) is None


def test_a_disk_goes_to_pools_that_all_hosts_reach_or_joins_a_host(cloud: Cloud) -> None:
    assert ask(cloud, [5], [2]) == {5, 7, 2, 20}
    assert ask(cloud, [5], [20, 3]) == {7, 2, 20, 3}
    assert ask(cloud, [5], [4]) == {5, 6, 7, 4}


def test_without_a_host_the_part_is_the_host(cloud: Cloud) -> None:
    assert ask(cloud, [5], []) is None
    assert ask(cloud, [5], [6]) == {3, 4, 6, 7}


def test_a_pool_without_aggregates_is_reached_from_its_own_tree() -> None:
    cloud = Cloud()
    cloud.replace([provider(1, shares=True), provider(10, root=1), provider(2)])

    assert ask(cloud, [2], [1]) == {1, 10}


def test_without_sharing_providers_every_part_goes_anywhere() -> None:
    cloud = Cloud()
    cloud.replace([provider(1, EAST), provider(2, WEST), provider(3)])

    assert ask(cloud, [1], [2]) is None
    assert Reach(cloud).admits([PartMove([0], [2])], [1])


def test_parts_that_move_at_once_must_reach_each_other(cloud: Cloud) -> None:
    """The host goes to the west only with its disk, and the disk only with its host."""
    one, three, east, west = (cloud.index_of[each] for each in (1, 3, 5, 6))
    reach = Reach(cloud)
    host, disk = PartMove([one], [three]), PartMove([east], [west])

    assert not reach.admits([host], [east])
    assert not reach.admits([disk], [one])
    assert reach.admits([host, disk], [])


def test_a_removed_provider_is_not_marked(cloud: Cloud) -> None:
    cloud.replace([], removed=[1])

    assert ask(cloud, [2], [5]) == {2, 20, 4, 5, 7}
