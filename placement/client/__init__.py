"""Provider trees for agents: read one, let a driver edit it, write the difference back.

The package speaks HTTP only, at microversion 1.30. Of the server it imports only the function that prints
names (specification 05 part C).
"""
