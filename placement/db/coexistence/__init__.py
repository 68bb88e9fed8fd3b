"""A coexistence, in which another service writes to the same database (specification 06 section 13.1).

While a fleet of the OpenStack service is replaced, both services write, and a row in the table
``coexistence`` records the begin. The other service knows neither our usage counters nor our log of changes.
So meanwhile the usage is the sum of the ledger, and searches compare checksums of everything that the other
service could have changed.

============= =============================================================================================
module        what it answers
============= =============================================================================================
``state``     Is a coexistence under way, and since when? Who wrote a provider last, and how long ago?
``checksums`` What has changed since a search, in a database whose log is not whole?
``adoption``  Which rows did others write after the end? Their usage is counted again.
``takeover``  How does it begin and end? All derived values are computed again.
``watch``     Are others still writing? It logs that once a minute, and ends the coexistence when they stop.
============= =============================================================================================

Imports point from ``watch`` down to ``state``. The package is a part of ``db``: statements on other tables
use terms of ``state``, so it cannot be above them, and its transactions do not need the domain. Outside it
three modules of ``db`` carry the consequences: ``counters`` says which number is the usage and whether it is
right, so that the statements of the ledger ask nothing else; ``cloud_rows`` reports to a search that the
log is missing; ``tree_rows`` puts checksums into the tags of trees.
"""
