"""The rules of whole trees."""

from placement.policies.rule import Rule

RULES = {
    "insight:trees": Rule(
        "Read whole trees of providers, with allocations if asked for.",
        "GET /-/trees",
        "GET /-/trees/{uuid}",
        place=90,
    ),
}
