"""Generated kernels on a GPU beside those of other libraries: checked, timed by events, printed as one table."""
