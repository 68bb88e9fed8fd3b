"""How many threads of a process ask the identity service at a time (specification 01 section 13.1)."""

import threading
from time import monotonic
from types import TracebackType
from typing import Any

from keystonemiddleware.auth_token import InvalidToken

from placement import errors

WAITS_S = 1.0
"""How long a request waits for its turn after the identity service was heard of for the last time."""


class IdentityUnavailable(errors.Unavailable):
    """The identity service does not answer, or its answer cannot validate tokens."""

    reason = "identity_unavailable"
    text = "The identity service cannot be used at the moment, so that no token can be validated."


class IdentityGate:
    """Lets some threads ask at a time. Others wait for their turn while there are answers, and no longer.

    Requests with unknown tokens would otherwise hold all threads while the identity service is frozen.

    :param most: the number of threads that may ask.
    :raises IdentityUnavailable: so many are asking, and for ``waits_s`` none of them has had an answer.
    """

    def __init__(self, most: int, waits_s: float = WAITS_S) -> None:
        self._most, self._waits_s = most, waits_s
        self._changed = threading.Condition()
        self._asking, self._heard_s = 0, 0.0

    def __enter__(self) -> None:
        with self._changed:
            if not self._asking:
                # Nobody knows yet whether it answers.
                self._heard_s = monotonic()
            while self._asking >= self._most:
                left_s = self._heard_s + self._waits_s - monotonic()
                if left_s <= 0:
                    raise IdentityUnavailable
                self._changed.wait(left_s)
            self._asking += 1

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._asking -= 1
            if error is None or isinstance(error, InvalidToken):
                self._heard_s = monotonic()
            self._changed.notify()


class GatedIdentity:
    """The middleware's client of the identity service, behind a gate."""

    def __init__(self, client: Any, gate: IdentityGate) -> None:
        self._client, self._gate = client, gate

    def verify_token(self, *given: Any, **more: Any) -> Any:
        """Ask about a token, as the client does."""
        with self._gate:
            return self._client.verify_token(*given, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
