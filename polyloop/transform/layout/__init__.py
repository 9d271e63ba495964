"""Transforms of data: where the elements of arrays are, which axes they have, and what is passed as an argument."""
