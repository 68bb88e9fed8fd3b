"""Validated tokens are kept for all threads of a process, for their time, and not without a bound."""

from placement.web.token_cache import TokenCache


def test_a_token_is_known_for_its_time() -> None:
    cache = TokenCache()
    cache.set("seen", b"who", time=300)
    cache.set("over", b"who", time=-1)

    assert [cache.get(key) for key in ("seen", "over", "never seen")] == [b"who", None, None]


def test_a_token_that_is_validated_again_has_its_new_value() -> None:
    cache = TokenCache()
    cache.set("token", b"old", time=-1)
    cache.set("token", b"new", time=300)

    assert cache.get("token") == b"new"


def test_the_oldest_tokens_are_dropped() -> None:
    cache = TokenCache(most=2)
    for key in "abc":
        cache.set(key, key.encode(), time=300)
    cache.set("b", b"again", time=300)
    cache.set("d", b"d", time=300)

    assert [cache.get(key) for key in "abcd"] == [None, b"again", None, b"d"]


def test_what_is_over_takes_no_memory() -> None:
    cache = TokenCache()
    for number in range(100):
        cache.set(str(number), b"who", time=-1)

    assert cache.size == 0
