"""Transforms of reductions and scans: partial results, threads and blocks, atomics, matrix instructions."""
