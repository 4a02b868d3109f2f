"""The IR reference in ``docs`` is the one that the declarations give."""

from warp_audit.compiler.ops.reference import reference


def test_the_reference_is_current(root, bless):
    path = root / "docs" / "ir.md"
    if bless:
        path.write_text(reference())
    assert path.read_text() == reference()
