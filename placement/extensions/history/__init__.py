"""Who wrote what, and what was there before."""
