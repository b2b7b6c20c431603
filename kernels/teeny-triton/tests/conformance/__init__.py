"""Every function of the language over dtypes and shapes: compiled, interpreted, and in NumPy.

`conformance.txt` is the list of what passes, and says of which type results are. After a change of
the language, write it anew from this folder's parent, and read what changed:

    python -m conformance.report
"""
