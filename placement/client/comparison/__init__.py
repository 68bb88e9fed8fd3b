"""The comparison of two Placement services (specification 06 section 13.2). It speaks HTTP only."""
