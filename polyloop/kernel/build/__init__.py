"""Construction of a ``LoopKernel`` from statements and domains: names, inames, order, nests, desugaring.

``builder`` runs the stages and lists them; ``callee`` stops half-way, for functions that are put in line.
A statement is ``Parsed..`` (``kernel.text``), then a ``Draft`` with the loops around it, then an ``Instruction``.
"""
