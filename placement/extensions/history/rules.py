"""The rules of the history."""

from placement.policies.rule import Rule

RULES = {
    "insight:history": Rule(
        "Ask who wrote what, and what was there before.",
        "GET /-/history",
        place=40,
        check="role:admin",
    ),
}
