"""The doctor's faults, as they are planted in a healthy snapshot, and what must be said of each."""
