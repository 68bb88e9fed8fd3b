"""Databases and programs, which several files of this folder use."""

from tests.support.programs import command as command
from tests.support.programs import environment as environment
from tests.support.programs import start as start
from tests.support.revisions import database as database
from tests.support.revisions import kind as kind
from tests.support.revisions import revision as revision
from tests.support.revisions import sqlite_url as sqlite_url
from tests.support.revisions import synced as synced
from tests.support.revisions import url as url
