"""Transforms of staging: values computed, fetched or kept ahead of their use, in shared memory, registers or lanes."""
