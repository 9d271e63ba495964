"""Blocks at the edge of an array that compute as if they were full: where nobody sees what they compute beyond it."""
