"""The domain: one module for each noun, with its rules and the functions that own transactions."""
