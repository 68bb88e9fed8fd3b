"""Changed programs, and whether the tests notice: ``python -m tests.mutants``."""
