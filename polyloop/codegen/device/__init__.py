"""Operations of threads together, and of devices alone: shuffles, scans, atomics, asynchronous copies, matrices."""
