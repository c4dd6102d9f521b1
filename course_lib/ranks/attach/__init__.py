"""Ranks that somebody else has started: found and watched over a wire that they open themselves."""
