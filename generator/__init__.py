"""The manifest generator: inventory in, one folder of manifests per cluster out."""
