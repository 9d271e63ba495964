"""Kernels divided over a mesh of devices: what each rank holds, runs, sends and receives, and engines that carry it.

``division.py`` reads what is divided, ``separate.py`` takes sums apart whose terms ranks share, ``homes.py`` finds the
rank of each instance, ``phases.py`` the parts of the program between messages, ``local.py`` their kernels.  With sizes,
``regions.py`` has owned elements and those of others, ``plan.py`` the messages, ``completeness.py`` the proof.
``execute.py`` runs a rank, and ``engines`` has what carries its messages.
"""
