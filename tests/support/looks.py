"""Looks at a picture, in one line."""

from collections.abc import Callable
from typing import TypeVar

from placement.objects.picture import Picture
from placement.search.cloud import Cloud

T = TypeVar("T")


def read_cloud(picture: Picture, work: Callable[[Cloud], T]) -> T:
    """Return ``work(cloud)``."""
    with picture.look() as look:
        return work(look.cloud)
