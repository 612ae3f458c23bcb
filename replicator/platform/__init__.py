"""Who the peers are: a static file, or Kubernetes."""
