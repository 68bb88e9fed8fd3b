"""Texts of providers, kept from answer to answer until the provider changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from placement.search.cloud import MOST_UNUSED_NAMES, Cloud
from placement.search.index_set import Indexes


class KeptTexts:
    """The texts of one cloud's providers for one kind of answer, each as of a stamp.

    Each provider has the same number of pieces. (They are an array of objects, since an answer picks
    thousands at once.) ``form``: what else the texts depend on; requests of one form follow one
    another nearly always, so no second one is kept. Who calls holds the lock of the picture.
    """

    def __init__(self, form: Hashable, pieces: int) -> None:
        self.form = form
        self._stamps = np.full(0, -1, np.int64)
        self._texts = np.empty((0, pieces), np.object_)
        self.shared: dict[Hashable, bytes] = {}

    @classmethod
    def on(cls, cloud: Cloud, answer: str, form: Hashable = None, pieces: int = 1) -> KeptTexts:
        """Return the texts that were kept for this kind of answer, none if in another form."""
        kept: KeptTexts | None = cloud.kept_texts.get(answer)
        if kept is None or kept.form != form:
            kept = cloud.kept_texts[answer] = cls(form, pieces)
        return kept

    def of(
        self, cloud: Cloud, shown: Indexes, write: Callable[[int], tuple[bytes, ...]]
    ) -> list[bytes]:
        """Return the pieces of these providers in a row; ``write`` makes those that changed."""
        missing = cloud.size - len(self._stamps)
        if missing > 0:
            self._stamps = np.append(self._stamps, np.full(missing, -1))
            more = np.empty((missing, self._texts.shape[1]), np.object_)
            self._texts = np.append(self._texts, more, axis=0)
        stamps = cloud.stamps[shown]
        for index in shown[self._stamps[shown] != stamps].tolist():
            self._texts[index] = write(index)
        self._stamps[shown] = stamps
        pieces: list[bytes] = self._texts[shown].ravel().tolist()
        return pieces

    def once(self, key: Hashable, write: Callable[[], bytes]) -> bytes:
        """Return a piece that many providers have: one object for all of them."""
        text = self.shared.get(key)
        if text is None:
            if len(self.shared) > 2 * len(self._stamps) + MOST_UNUSED_NAMES:
                self.shared.clear()
            text = self.shared[key] = write()
        return text
