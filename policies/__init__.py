"""The Rego policy library, shipped as package data."""
