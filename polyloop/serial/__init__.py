"""The canonical form of values: data with a version, read without executing anything and with every part checked.

``form.py`` writes and reads it, ``classes.py`` lists what it may hold, ``plain.py`` has what is no class of the
package, ``checks.py`` looks at what is read, and ``value.py`` is the base of classes whose ``==``, ``hash``, ``copy``
and ``pickle`` go through it.
"""
