"""How many writes this process has finished: the example of docs/maintainers/add-an-extension.rst."""
