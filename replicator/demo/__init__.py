"""A cluster of real agents on this machine: for the demo, the benchmarks and the fault tests."""
