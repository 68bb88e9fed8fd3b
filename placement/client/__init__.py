"""Provider trees for agents: read one, let a driver edit it, write the difference back.

Speaks HTTP only, at microversion 1.30, and imports nothing of the server but how names are printed
(specification 05 part C).
"""
