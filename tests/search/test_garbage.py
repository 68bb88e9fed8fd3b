"""The collector is paused for what is read at once, and goes on whatever happens."""

import gc

import pytest

from placement.search.garbage import pause_collection


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_afterwards_as_it_was(enabled: bool) -> None:
    """Also after an error, and where an operator has turned it off."""
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ValueError), pause_collection():
            assert not gc.isenabled()
            with pause_collection():
                pass
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()
