"""Deterministic simulation: the real core on virtual time, with seeded faults and checks."""
