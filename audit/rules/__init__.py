"""The lint rules, one a file, found by walking this package.

Codes by family: 1xx launches and arrays, 2xx bounds and guards, 3xx races, 4xx automatic
differentiation, 5xx numbers and types, 6xx where Warp differs from Python, 7xx lifetime, graph
capture and host code, 8xx tiles, 9xx the linter's own remarks.
"""
