"""The checks: what a cluster would reject, ignore, or suffer from, found before it is asked."""
