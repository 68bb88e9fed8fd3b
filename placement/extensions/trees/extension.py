"""Whole trees."""

from placement.extension import Extension
from placement.extensions.trees.routes import ROUTES

EXTENSION = Extension(routes=ROUTES)
