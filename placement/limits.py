"""What the columns hold, on every database."""

MAX_INT = 2147483647
"""The largest amount, and the largest ``max_unit``."""

MAX_RATIO = 3.40282e38
