"""Device operations: shuffles, scans, atomics, asynchronous copies, matrix instructions."""
