"""Sans-I/O core: state machines (event in, effects out) and pure planning functions."""
