"""Where claims meet that arrive at one process at the same time (placement/claims/together.py)."""

from placement.claims import shortcuts


def waiting() -> int:
    """Return how many claims wait for their turn, in this process."""
    desks = list(shortcuts._DESKS.values())
    return sum(len(meeting._waiting) for desk in desks for meeting in list(desk.meetings.values()))
