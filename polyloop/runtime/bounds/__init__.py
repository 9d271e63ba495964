"""Parts of :func:`polyloop.explain`: counts for any device, resources of compiled kernels, processors.

``counted`` has operations and footprints at given sizes, ``used`` the registers of compiled kernels. ``on_processor``
explains a kernel for C, with the figures that ``measured`` finds of this machine.
"""
