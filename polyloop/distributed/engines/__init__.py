"""Engines, which carry the messages of ranks: ``engine.py`` has the interface, ``inprocess.py`` ranks as threads."""
