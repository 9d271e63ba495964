"""From statements and domains to a ``LoopKernel``: names, inames, order, nests, and what stands for something else.

``builder`` goes through all steps; each file is one of them, in the order that it imports them.
"""
