"""The commands, one a module: a docstring, ``SUMMARY``, ``register(parser)`` and ``run(arguments)``."""
