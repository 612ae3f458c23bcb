"""Typed models of what a user may say and of what a cluster reads, with the facts behind them."""
