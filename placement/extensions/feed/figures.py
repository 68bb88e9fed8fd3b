"""The figures of the feed (07 section 6)."""

from placement.telemetry import Counter

CHANGES = Counter(
    name="changes",
    text="Answers to those who follow the changes, by outcome.",
    label="outcome",
    at_zero=("changed", "nothing", "too_old"),
)
CHANGES_UNWAITED = Counter(
    name="changes_unwaited",
    text="Requests that were to wait for a change, and did not because enough others do.",
)

FIGURES = (CHANGES, CHANGES_UNWAITED)
