"""Rows of the impact table, one module per concern."""
