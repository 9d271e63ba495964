"""Export of kernels as source with a C interface, for programs that have no Python.

``conditions`` writes integer expressions of sizes as C, ``interface`` the header and the launcher of a kernel,
``build`` the files of a library: CMake, pkg-config, a manifest.  ``export`` is the public function.  Nothing here is
needed to run what was exported.
"""
