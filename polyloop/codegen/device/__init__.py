"""What threads do together, and what only devices have: shuffles, scans, atomics, asynchronous copies, matrices."""
