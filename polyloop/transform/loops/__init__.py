"""Transforms of loops: inames, their order and nesting, and tags."""
