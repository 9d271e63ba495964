"""Launches on an NVIDIA GPU: parameter buffers of functions, and graphs of whole calls.

``parameters`` lays out what a launch is passed as its cubin says.  ``graphs`` makes all launches of a call the nodes of
one CUDA graph, which is kept for the sizes that decide them, and says when a graph is chosen.  ``cooperative`` launches
one function that runs all of them.
"""
