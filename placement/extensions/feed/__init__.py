"""The feed, which lists the trees that have changed since a token."""
