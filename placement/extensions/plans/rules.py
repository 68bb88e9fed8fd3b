"""The rules of plans."""

from placement.policies.rule import Rule

RULES = {
    "insight:plans": Rule(
        "Ask what must move or go, and in which order.",
        "POST /-/plans",
        place=60,
    ),
}
