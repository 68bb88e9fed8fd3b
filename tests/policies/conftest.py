"""Databases and programs, which several files of this folder use."""

from tests.support.programs import environment as environment
from tests.support.programs import start as start
