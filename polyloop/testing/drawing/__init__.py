"""What the fuzzers draw: kernels, chains of transforms, expressions, arguments, and names that mean something else."""
