"""Op kinds: one declaration for each shape of statement that Warp generates.

A kind says how a statement becomes an op, how the op prints back, what it affects, and
shows an example. Kinds are found by walking this package; a declaration that lacks a part
fails on import, with a sentence.
"""
