"""Renderers of a diff report, one module per format."""
