"""The script that mod_wsgi loads."""

from placement.wsgi.api import application  # noqa: F401
