"""The rules of the feed."""

from placement.policies.rule import Rule

RULES = {
    "insight:changes": Rule("Ask which trees have changed.", "GET /-/changes", place=30),
}
