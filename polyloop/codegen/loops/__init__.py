"""Loops: bounds and guards from integer rows, full and partial tiles, vector lanes, wide accesses, grids."""
