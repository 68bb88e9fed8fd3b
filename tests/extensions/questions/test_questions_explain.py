"""Every number of an explanation can be had from the compatible API (specification 07 section 2)."""

import re
from random import Random
from typing import Any
from urllib.parse import urlencode

from placement.search.cloud import Cloud
from tests.search import worlds
from tests.search.builders import World, load
from tests.support.fixed_picture import Asked, pairs_of, with_uuids

Pairs = list[tuple[str, str]]


def count(place: Asked, pairs: Pairs) -> int | None:
    """Return how many allocation requests the compatible API answers, None if it refuses."""
    if not any(name == "limit" for name, _ in pairs):
        pairs = [*pairs, ("limit", "1000")]
    answer = place.ask("/allocation_candidates", pairs)
    return len(answer.json["allocation_requests"]) if answer.status_int == 200 else None


def dropped(pairs: Pairs, drop: dict[str, str]) -> Pairs:
    """Return a query without a demand, edited as a person would edit it."""
    name, value = drop["parameter"], drop["value"]
    if name == "group_policy":
        return [*(pair for pair in pairs if pair[0] != name), (name, "none")]
    left = list(pairs)
    if (name, value) in pairs:
        left.remove((name, value))
    else:
        assert times(pairs, drop), f"the query has no {drop}"
        place = next(
            n for n, (key, text) in enumerate(pairs) if key == name and value in text.split(",")
        )
        left[place] = (name, ",".join(each for each in pairs[place][1].split(",") if each != value))
    suffix = re.match("(resources|required|member_of|in_tree)(.*)", name)
    if suffix and not any(
        key in (f"resources{suffix[2]}", f"required{suffix[2]}") for key, _ in left
    ):
        left = without_group(left, suffix[2])
    return left


def without_group(pairs: Pairs, suffix: str) -> Pairs:
    names = {f"{name}{suffix}" for name in ("resources", "required", "member_of", "in_tree")}
    left = []
    for key, text in pairs:
        if key == "same_subtree":
            text = ",".join(item for item in text.split(",") if item != suffix)
        if text and key not in names:
            left.append((key, text))
    return left


def hopeless(random: Random) -> tuple[Cloud, Pairs]:
    """Return a cloud and a query that asks for a little more than such queries do."""
    records, request = worlds.question(random, options=False)
    pairs = pairs_of(request)
    for place, (key, text) in enumerate(pairs):
        if key.startswith("resources") and random.randrange(2):
            pairs[place] = (
                key,
                re.sub(r":(\d+)", lambda n: f":{int(n[1]) + random.randrange(7)}", text),
            )
    if worlds.one_in(random, 4):
        pairs.append(("limit", str(random.randint(1, 9))))
    return load(with_uuids(records)), pairs


@worlds.seeds(150, 674242846081903972)
def test_every_number_is_that_of_the_compatible_api(random: Random) -> None:
    cloud, pairs = hopeless(random)
    place = Asked(cloud)
    answer = place.ask("/-/explain", pairs)
    expected = count(place, pairs)
    if expected is None:
        assert answer.status_int == place.ask("/allocation_candidates", pairs).status_int
        return

    told = answer.json

    assert told["candidates"]["count"] == expected
    if expected:
        assert "relaxations" not in told
        assert "largest" not in told
        return
    assert told["complete"]
    for each in told["relaxations"]:
        drops = each["drop"] if isinstance(each["drop"], list) else [each["drop"]]
        relaxed = pairs
        # A dropped group leaves each list of groups, which would then not be found by its text.
        for drop in sorted(drops, key=lambda drop: drop["parameter"] != "same_subtree"):
            relaxed = dropped(relaxed, drop) if times(relaxed, drop) else relaxed
        assert count(place, relaxed) == each["candidates"]["count"], (pairs, each)
    singles = [each["drop"] for each in told["relaxations"] if isinstance(each["drop"], dict)]
    helped = any(
        each["candidates"]["count"]
        for each in told["relaxations"]
        if isinstance(each["drop"], dict)
    )
    assert told["pairs_tried"] == (not helped)
    for drop in singles:
        assert singles.count(drop) <= times(pairs, drop)
    counts = [each["candidates"]["count"] > 0 for each in told["relaxations"]]
    assert counts == sorted(counts, reverse=True)
    check_largest(place, pairs, told)


def times(pairs: Pairs, drop: dict[str, str]) -> int:
    """Return how often a query makes a demand; 0 if the other one of a pair took its whole group along."""
    return sum(
        key == drop["parameter"] and (text == drop["value"] or drop["value"] in text.split(","))
        for key, text in pairs
    )


def check_largest(place: Asked, pairs: Pairs, told: dict[str, Any]) -> None:
    for each in told["largest"]:
        name, asked, would_do = each["resource_class"], each["asked"], each["would_do"]
        key = f"resources{each['group']}"
        doing = [
            amount
            for amount in range(1, asked)
            if count(
                place,
                [
                    (k, re.sub(rf"\b{name}:{asked}\b", f"{name}:{amount}", v) if k == key else v)
                    for k, v in pairs
                ],
            )
        ]
        assert would_do == max(doing, default=None), (pairs, each)


@worlds.seeds(60)
def test_about_one_host_is_the_same_with_its_tree_alone(random: Random) -> None:
    """In clouds where nobody shares, a tree alone answers as ``in_tree`` of each group would."""
    cloud, pairs = hopeless(random)
    place = Asked(cloud)
    host = random.choice([name for name in cloud.names if name])
    answer = place.ask("/-/explain", [*pairs, ("about", host)])
    if answer.status_int != 200:
        return

    about = answer.json["about"]

    everywhere = answer.json["candidates"]
    assert about["candidates"]["count"] <= everywhere["count"]
    could = about["verdict"] == f"{host} could take this."
    assert could == (about["candidates"]["count"] > 0)
    assert could or about["verdict"].startswith(f"{host} cannot take this: ")
    if cloud.has_trait(worlds.SHARES) or any(key.startswith("in_tree") for key, _ in pairs):
        return
    uuid = next(u for u, name in zip(cloud.uuids, cloud.names, strict=True) if name == host)
    suffixes = {key.removeprefix("resources") for key, _ in pairs if key.startswith("resources")}
    in_tree = [(f"in_tree{suffix}", str(uuid)) for suffix in sorted(suffixes)]
    assert count(place, [*pairs, *in_tree]) == about["candidates"]["count"]


def test_an_amount_does_not_do_if_the_search_then_comes_upon_an_unknown_name() -> None:
    """The first group hides the second from the request, and the compatible API refuses it with less."""
    place = Asked(load(with_uuids(list(World().host("h", VCPU=2).records.values()))))
    pairs = [("resources_A", "VCPU:3"), ("resources_B", "VCPU:1"), ("required_B", "CUSTOM_NONE")]
    pairs.append(("group_policy", "none"))
    assert count(place, pairs) == 0
    assert count(place, [("resources_A", "VCPU:1"), *pairs[1:]]) is None

    told = place.ask("/-/explain", pairs)

    assert told.status_int == 200, told.text
    assert [each["would_do"] for each in told.json["largest"]] == [None, None]


def test_the_random_questions_are_worth_explaining() -> None:
    """Many have no candidate, and of these many have a demand that helps, or an amount that would do."""
    told = []
    for seed in range(150):
        cloud, pairs = hopeless(Random(seed))
        answer = Asked(cloud).ask("/-/explain", pairs)
        if answer.status_int == 200 and not answer.json["candidates"]["count"]:
            told.append(answer.json)
    helped = [each for each in told if any(r["candidates"]["count"] for r in each["relaxations"])]
    by_pairs = [each for each in helped if each["pairs_tried"]]
    smaller = [each for each in told if any(r["would_do"] for r in each["largest"])]
    assert len(told) > 50
    assert len(helped) > 30
    assert len(by_pairs) > 3
    assert len(smaller) > 15


@worlds.seeds(45)
def test_of_this_or_that_each_is_explained_as_alone_and_the_first_that_has_candidates_is_chosen(
    random: Random,
) -> None:
    records, first = worlds.question(random, options=False)
    more = [worlds.request(random, records, options=False) for _ in range(random.randint(1, 3))]
    place = Asked(load(with_uuids(records)), insight__work_factor=1600)
    queries = [pairs_of(each) for each in (first, *more)]
    alone = [place.ask("/-/explain", pairs) for pairs in queries]
    texts = [urlencode(pairs) for pairs in queries[1:]]
    about = [("about", random.choice([record.uuid for record in records]))]

    answer = place.ask("/-/explain", [*queries[0], *(("or", text) for text in texts)])

    # In which order names are looked for decides whether one that nobody has is refused alone.
    if any(each.status_int != 200 for each in alone) or answer.status_int == 400:
        assert answer.status_int == 400
        return
    told = answer.json
    assert told["alternatives"] == [each.json for each in alone]
    counts = [count(place, pairs) for pairs in queries]
    assert told["chosen"] == next((n for n, many in enumerate(counts) if many), None)
    assert (told["exact"], told["complete"]) == (True, True)
    limited = [*queries[0], ("limit", "1"), *about, *(("or", text) for text in texts)]
    limited = place.ask("/-/explain", limited).json["alternatives"]
    for each, pairs in zip(limited, queries, strict=True):
        assert each == place.ask("/-/explain", [*pairs, ("limit", "1"), *about]).json
