"""The policy rules of claims with chosen places."""

from placement.policies.rule import Rule

RULES = {
    "claims:create": Rule(
        "Let the service choose places and claim them, or hold the destinations of a plan.",
        "POST /-/claims",
        "POST /-/plans",
        place=100,
    ),
    "claims:confirm": Rule(
        "Keep what is held.",
        "POST /-/claims/confirm",
        "POST /-/claims/{consumer_uuid}/confirm",
        place=110,
    ),
    "groups:show": Rule("Show a group of consumers.", "GET /-/groups/{name}", place=120),
    "holds:list": Rule("List what is held until when.", "GET /-/holds", place=130),
}
