"""Costs of a kernel, counted for all sizes at once: operations, bytes, sectors, bank conflicts, occupancy.

Counts are polynomials (``poly.polynomial``) in the parameters. ``instance_counts`` counts instances of placed
statements, by thread, warp or block, with repeated work or without; ``operations`` and ``traffic`` count what one
instance does; ``dead_instances`` finds the instances whose results are not used. ``coalescing`` computes the
addresses of one pass of each class of passes that ``warp_classes`` finds.
"""
