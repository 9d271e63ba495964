"""Twenty programs as PolyBench has them: in polyloop, in C that is tiled by hand, and in Numba."""
