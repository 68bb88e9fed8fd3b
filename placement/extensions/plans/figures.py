"""The figures of plans (07 section 6)."""

from placement.telemetry import Counter

PLANS = Counter(
    name="plans",
    text="Plans that were asked for, by outcome.",
    label="outcome",
    at_zero=("minimal", "bounded", "refused", "given_up"),
)
PLAN_STEPS = Counter(
    name="plan_steps",
    text="Steps of the plans that were answered, by kind.",
    label="kind",
    at_zero=("move", "remove"),
)

FIGURES = (PLANS, PLAN_STEPS)
