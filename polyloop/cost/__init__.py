"""Costs of a kernel, counted for all sizes at once: operations, bytes, sectors, bank conflicts, occupancy."""
