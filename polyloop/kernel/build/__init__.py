"""Construction of a ``LoopKernel`` from statements and domains: names, inames, order, nests, desugaring.

``builder`` runs all steps; each file is one of them, in the order that it imports them.
"""
