"""Drawers of the fuzzers: kernels, chains of transforms, expressions, arguments, and hostile names."""
