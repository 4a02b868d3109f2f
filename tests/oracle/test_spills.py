"""Spills against the compiler's own marks, which nvdisasm prints beside the instructions."""

import re

import pytest


def program(values):
    """A kernel with too many values for the registers that its launch bounds leave it."""
    lines = [
        "import warp as wp\n\n",
        "@wp.kernel(launch_bounds=(1024, 2), enable_backward=False)",
        "def crowded(a: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):",
        "    i = wp.tid()",
        *(f"    x{n} = a[i, {n}]" for n in range(values)),
        f"    s = {' + '.join(f'x{n}' for n in range(values))}",
        "    for k in range(3):",
        "        s = wp.sin(s)",
        *(f"    out[i, {n}] = x{n} * s" for n in range(values)),
    ]
    return "\n".join(lines) + "\n"


def test_spill_stores(compiled, tmp_path):
    (tmp_path / "crowded.py").write_text(program(32))
    build = compiled(tmp_path / "build", tmp_path / "crowded.py")
    unit, code = build.one("crowded")
    marked = [
        found.sass
        for found in build.index(unit).all(code)
        if found.sass.startswith("STL") and "SpillRefill" in found.sass
    ]
    if not marked:
        pytest.skip("this compiler does not mark its spills")
    widths = [re.search(r"STL\.(64|128)", sass) for sass in marked]
    assert code.spills == sum(int(width[1]) // 8 if width else 4 for width in widths)
    assert code.spills > 0
    assert code.local >= 4


def test_no_spills_where_the_stack_is_the_programs(examples):
    for unit in examples.units:
        for code in examples.index(unit).codes():
            assert code.spills == 0
