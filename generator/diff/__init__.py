"""What a change of the rendered tree means: two trees in, one report out, no cluster asked."""
