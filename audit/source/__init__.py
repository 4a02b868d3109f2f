"""What source text says of a Warp program, read with ``ast`` alone: nothing of the user's is imported.

``project`` finds files and hands out modules; ``module`` holds a file's symbols; ``device`` looks into
kernels and ``@wp.func``, ``host`` into the code that allocates and launches. Rules read these and
never walk a tree of their own where a fact is already there.
"""
