"""A real Nova beside this service: what happens in a cloud, and plans carried out (specification 10)."""

import pytest

from tests.operations.cloud.services import running_cloud
from tests.operations.cloud.story import Story

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


def test_ledger_nova_and_mirror_agree_after_all_that_happens() -> None:
    """See :class:`Story` for what that is."""
    with running_cloud() as cloud:
        Story(cloud).play()
