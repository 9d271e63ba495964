"""Loops: bounds and guards from rows of integers, full tiles apart from partial ones, lanes, wide accesses, grids."""
