"""The rules of what is served under ``/-/``, and their defaults (specification 07 section 1)."""

from placement.policies.base import api_rule

RULES = [
    api_rule(
        "insight:explain", "Ask why a request has no allocation candidate.", ["GET /-/explain"]
    ),
    api_rule("insight:capacity", "Ask how often a request would fit.", ["GET /-/capacity"]),
    api_rule("insight:what_if", "Ask what a change would do.", ["POST /-/what-if"]),
    api_rule(
        "insight:metrics",
        "Read how the service is doing, as Prometheus asks for it.",
        ["GET /-/metrics"],
    ),
    api_rule(
        "insight:trees",
        "Read whole trees of providers, with allocations if asked for.",
        ["GET /-/trees", "GET /-/trees/{uuid}"],
    ),
]
