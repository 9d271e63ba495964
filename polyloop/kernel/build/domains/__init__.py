"""Domains as users write them: read, taken apart where a loop runs around an empty one, bounded by temporaries."""
