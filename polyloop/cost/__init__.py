"""What a kernel costs, counted for all sizes at once: operations, bytes, sectors, bank conflicts, occupancy."""
