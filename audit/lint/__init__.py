"""Everything of ``warp-audit lint`` around the rules.

Data flows through the files in this order: ``config`` and ``settings`` say what is wanted, ``files`` finds
what is to be read, ``cache`` knows what need not be, ``run`` hands the rest to ``work``, which reads one file
(``notebook`` if it is one), has the rules look at it and notes where findings are suppressed (``suppress``).
What comes back is weighed (``selection``, ``baseline``) and becomes a ``Report``, frozen, for ``reports``.
"""
