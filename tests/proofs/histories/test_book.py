"""The pages of what only one client writes: which answers of the service they take, and which they blame."""

import pytest

from tests.support.book import Book, ConsumerPage, Violation
from tests.support.client import NOTHING, Answer

ONE, TWO = {"host": {"VCPU": 1}}, {"host": {"VCPU": 2}}
DONE, LOST = Answer(204), Answer(NOTHING)


@pytest.fixture
def page() -> ConsumerPage:
    """A consumer of generation 1 that holds one unit, with a write of two whose answer was lost."""
    made = ConsumerPage("consumer", Book())
    assert made.answered(DONE, ONE)
    assert not made.answered(LOST, TWO)
    return made


@pytest.mark.parametrize(("generation", "sets"), [(1, ONE), (2, TWO)])
def test_a_lost_write_may_have_happened_or_not(
    page: ConsumerPage, generation: int, sets: dict[str, dict[str, int]]
) -> None:
    page.read(generation, sets)
    assert (page.generation, page.sets) == (generation, sets)


@pytest.mark.parametrize(("generation", "sets"), [(None, {}), (2, ONE), (3, TWO), (1, TWO)])
def test_what_was_not_written_is_blamed(
    page: ConsumerPage, generation: int | None, sets: dict[str, dict[str, int]]
) -> None:
    with pytest.raises(Violation):
        page.read(generation, sets)


def test_a_lost_write_ends_with_the_next_that_happened(page: ConsumerPage) -> None:
    """Its generation has passed: it is not taken any more."""
    page.answered(DONE, ONE)
    assert page.book.steps == {"host": 2}
    with pytest.raises(Violation):
        page.read(3, TWO)


def test_a_removal_that_was_lost_is_settled_by_reading(page: ConsumerPage) -> None:
    page.answered(Answer(503), {})
    page.read(None, {})
    assert page.generation is None
    assert page.may_end
