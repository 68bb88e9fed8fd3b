"""The domain: one module per noun, with its rules and the functions that own transactions."""
