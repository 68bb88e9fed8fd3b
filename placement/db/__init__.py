"""The store: engine, transactions, tables, statements and migrations."""
