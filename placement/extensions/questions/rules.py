"""The rules of questions."""

from placement.policies.rule import Rule

RULES = {
    "insight:explain": Rule(
        "Ask why a request has no allocation candidate.",
        "GET /-/explain",
        place=10,
    ),
    "insight:capacity": Rule(
        "Ask how often a request would fit, and did.",
        "GET /-/capacity",
        "GET /-/capacity/history",
        place=20,
    ),
    "insight:what_if": Rule("Ask what a change would do.", "POST /-/what-if", place=50),
    "insight:survival": Rule(
        "Ask whether the consumers of any one host would fit elsewhere.",
        "GET /-/survival",
        place=70,
    ),
}
