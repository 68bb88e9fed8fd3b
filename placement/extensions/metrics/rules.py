"""The rules of the metrics."""

from placement.policies.rule import Rule

RULES = {
    "insight:metrics": Rule(
        "Read how the service is doing, as Prometheus asks for it.",
        "GET /-/metrics",
        place=80,
    ),
}
