"""A Kubernetes control plane from Go modules, without containers."""
