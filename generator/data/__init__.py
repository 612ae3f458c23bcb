"""Data that the generator carries into what it writes."""
