"""The fixtures that other projects import for their functional tests (specification 06 section 10).

Needs the extra ``fixtures``. The service's own tests are in ``tests/`` beside this package.
"""
