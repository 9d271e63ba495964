"""Transforms of data: storage layouts, array axes, and arguments."""
