"""The web page of the service, and the addresses to which it leads."""
