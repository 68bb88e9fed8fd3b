"""The machine of claims again, over HTTP, each request through the next of three workers.

Their pictures are of different ages, and what each draws is its own affair. PLACEMENT_HTTP_EXAMPLES (default
2) says how many sequences are tried, PLACEMENT_HTTP_DATABASE (default sqlite) on what.
"""

from functools import partial

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.extensions.claims.test_claims_model import SETTINGS, ClaimsMachine
from tests.objects.test_ledger_over_http import EXAMPLES, STEPS, workers


def test_claims_through_any_worker_are_what_the_model_allows() -> None:
    """What one worker wrote every other must go by."""
    bounds = settings(SETTINGS, max_examples=EXAMPLES, stateful_step_count=STEPS)
    run_state_machine_as_test(partial(ClaimsMachine, workers), settings=bounds)
