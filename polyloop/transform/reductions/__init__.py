"""Transforms of reductions and scans: in parts, over threads and blocks, by atomic updates, by matrix instructions."""
