"""Loops over functions; they know no network and no text."""
