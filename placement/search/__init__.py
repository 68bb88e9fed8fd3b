"""The candidate engine: pure, lazy and bounded (specification 04)."""
