"""The rule of the example."""

from placement.policies.rule import Rule

RULES = {"writes:count": Rule("Ask how many writes were finished.", "GET /-/writes-seen")}
