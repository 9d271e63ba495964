"""Transforms of loops: other inames in their place, their order and nesting, and how they run (tags)."""
