"""What a cluster reads: the kinds that stowplan generates."""
