"""Transforms of staging: values precomputed, prefetched or kept in shared memory, registers or lanes."""
