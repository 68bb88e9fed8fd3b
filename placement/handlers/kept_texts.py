"""Texts of providers and of trees, kept from answer to answer until what they show changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

from placement.search.cloud import Cloud
from placement.search.index_set import Indexes


class KeptTexts:
    """The texts of one cloud's providers, or of its trees, for one kind of answer, each as of a stamp.

    ``form``: what else the texts depend on; only those of the last form are kept. The caller holds the lock
    of the picture.
    """

    def __init__(self, form: Hashable) -> None:
        self.form = form
        self._stamps = np.full(0, -1, np.int64)
        self._texts = np.empty(0, np.object_)

    @classmethod
    def on(cls, cloud: Cloud, answer: str, form: Hashable = None) -> KeptTexts:
        """Return the texts that were kept for this kind of answer, none if in another form."""
        kept: KeptTexts | None = cloud.kept_texts.get(answer)
        if kept is None or kept.form != form:
            kept = cloud.kept_texts[answer] = cls(form)
        missing = cloud.size - len(kept._stamps)
        if missing > 0:
            kept._stamps = np.append(kept._stamps, np.full(missing, -1))
            kept._texts = np.append(kept._texts, np.empty(missing, np.object_))
        return kept

    def of(
        self, shown: Indexes, stamps: NDArray[np.int64], write: Callable[[int], bytes]
    ) -> list[bytes]:
        """Return the texts of these providers, or roots; ``write`` makes those whose stamps have changed."""
        for index in shown[self._stamps[shown] != stamps].tolist():
            self._texts[index] = write(index)
        self._stamps[shown] = stamps
        texts: list[bytes] = self._texts[shown].tolist()
        return texts
