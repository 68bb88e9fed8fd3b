"""Another service writes to the same database (specification 06 section 13.1).

While a fleet of the OpenStack service is replaced, both services write, and the table ``coexistence`` has a
row that says since when. The other service knows neither our usage counters nor our log of changes. So,
meanwhile, usage is the sum of the ledger, and searches compare checksums of all that it could have changed.

============ =============================================================================================
module       what it answers
============ =============================================================================================
``state``    Is it under way, since when? Who wrote a provider last? For how long are others quiet?
``signs``    What has changed since a search, in a database whose log is not whole?
``adoption`` What others wrote after the end: it is counted again, and is ours from then on.
``takeover`` Begin and end: all that is derived is computed anew.
``watch``    Says once a minute what others write, and ends a coexistence in which they are quiet.
============ =============================================================================================

Imports point from ``watch`` down to ``state``. All of it stands in ``db``: statements on other tables are
made with terms of ``state``, so it cannot stand above them, and its transactions need nothing of the domain.
Outside it three modules of ``db`` carry the consequences: ``counters`` says which number is the usage and
whether it is right, so that the statements of the ledger ask nothing else; ``cloud_rows`` tells a search that
there is no log; ``tree_rows`` puts signs into the tags of trees.
"""
