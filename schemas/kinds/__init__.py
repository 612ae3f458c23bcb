"""The schemas of what a cluster reads: vendored originals, their converted form, and a loader."""
