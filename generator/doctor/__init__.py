"""``stowplan doctor``: what is wrong in a live cluster, read through its API and never written."""
