"""Two Placement services asked the same questions (specification 06 section 13.2). Speaks HTTP only."""
