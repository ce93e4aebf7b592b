"""Other implementations of the same decoding, beside ours: a file a peer."""
