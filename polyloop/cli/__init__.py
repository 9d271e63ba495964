"""The command line: ``python -m polyloop demo|show|doctor``."""
