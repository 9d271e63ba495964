"""Pictures of kernels and HTML forms of results; facts come from the analyses, and nothing here decides anything.

A picture is SVG text that needs nothing else (no fonts, scripts or network), with colours for light and dark pages.
``import polyloop`` loads no module of this package but :mod:`polyloop.viz.methods`.
"""
