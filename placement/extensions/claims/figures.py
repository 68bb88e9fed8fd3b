"""The figures of claims with chosen places (07 section 6)."""

from placement.telemetry import HOLDS, Counter

CLAIMS = Counter(
    name="claims",
    text="Consumers for which the service chose a place, or refused to.",
    label="outcome",
    at_zero=("granted", "refused"),
)
CLAIM_RETRIES = Counter(
    name="claim_retries",
    text="Times such claims were chosen again, because others were faster.",
)

FIGURES = (CLAIMS, CLAIM_RETRIES, HOLDS)
