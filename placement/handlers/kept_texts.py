"""Texts of providers and of trees, kept between answers until their content changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

from placement.search.cloud import Cloud
from placement.search.index_set import Indexes


class KeptTexts:
    """The texts of one cloud's providers, or of its trees, for one kind of answer, each with a stamp.

    ``form``: the other values on which the texts depend; only texts of the last form are kept. Several
    threads and editions of the cloud share one object: a text and its stamp are stored and read together.
    """

    def __init__(self, form: Hashable) -> None:
        self.form = form
        self._lock = threading.Lock()
        self._stamps = np.full(0, -1, np.int64)
        self._texts = np.empty(0, np.object_)

    @classmethod
    def on(cls, cloud: Cloud, answer: str, form: Hashable = None) -> KeptTexts:
        """Return the texts that were kept for this kind of answer, none if in another form."""
        kept: KeptTexts | None = cloud.kept_texts.get(answer)
        if kept is None or kept.form != form:
            kept = cloud.kept_texts[answer] = cls(form)
        with kept._lock:
            # The cloud has grown since; no text has the stamp -1.
            missing = cloud.size - len(kept._stamps)
            if missing > 0:
                kept._stamps = np.append(kept._stamps, np.full(missing, -1))
                kept._texts = np.append(kept._texts, np.empty(missing, np.object_))
        return kept

    def read_or_write(
        self, shown: Indexes, stamps: NDArray[np.int64], write: Callable[[int], bytes]
    ) -> list[bytes]:
        """Return the texts of these providers, or roots; ``write`` makes those whose stamps have changed."""
        with self._lock:
            texts = self._texts[shown]
            missing = np.flatnonzero(self._stamps[shown] != stamps)
        if len(missing):
            for place, index in zip(missing.tolist(), shown[missing].tolist(), strict=True):
                texts[place] = write(index)
            with self._lock:
                self._texts[shown[missing]] = texts[missing]
                self._stamps[shown[missing]] = stamps[missing]
        written: list[bytes] = texts.tolist()
        return written
