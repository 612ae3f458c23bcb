"""The multi-tier checkpoint replicator runtime."""
