"""Checks: they look at values and return findings; they never raise on bad content."""
