"""What every test removed: the answer to "why is there no candidate?"."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Step:
    """One test: the group it belongs to ("" unsuffixed, None the whole request) and its effect.

    Counts are providers, or trees for reasons that speak of trees.
    """

    suffix: str | None
    reason: str
    removed: int
    left: int

    def __str__(self) -> str:
        scope = "request" if self.suffix is None else f"group '{self.suffix}'"
        return f"{scope}: {self.reason}: {self.removed} removed, {self.left} left"


@dataclass(slots=True)
class Tally:
    """The tests in the order in which they ran.

    ``stop`` says what ended the search before combining, as section 5.8 has it; None if nothing.
    """

    steps: list[Step] = field(default_factory=list)
    stop: str | None = None

    def note(self, suffix: str | None, reason: str, before: int, left: int) -> None:
        """Record that a test left ``left`` of ``before``."""
        self.steps.append(Step(suffix, reason, before - left, left))

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        if self.stop:
            lines.append(f"stopped: {self.stop}")
        return "; ".join(lines)
