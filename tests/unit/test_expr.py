"""The operand grammar: what is read prints back, in both spellings."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp_audit.compiler.ir.expr import (
    CPP,
    WIR,
    Binary,
    Braces,
    Call,
    Cast,
    Choice,
    Dual,
    ExprError,
    Field,
    Group,
    Literal,
    Name,
    Primal,
    Reader,
    Subscript,
    Unary,
    values,
)


def read(text, how):
    reader = Reader(text, how)
    found = reader.expression()
    if reader.at != len(text):
        raise reader.fail("the end")
    return found


CASES = {
    "var_12": "%12",
    "adj_ret": "^ret",
    "&((var_s).grid)": "&((%s).grid)",
    "*(var_0)": "*(%0)",
    "(wp::uint64*)&(var_a.data)": "(wp::uint64*)&(%a.data)",
    "wp::vec_t<3, wp::float32>(var_1, var_2, var_3)": "wp::vec_t<3, wp::float32>(%1, %2, %3)",
    "wp::transform_t<wp::float32>({var_0, var_1})": "wp::transform_t<wp::float32>({%0, %1})",
    "(((*wp::address(var_boxes, var_0))).quat)": "(((*wp::address(%boxes, %0))).quat)",
    "[&](auto& _e) -> auto& { return _e.c(var_2); }": "[&](auto& _e) -> auto& { return _e.c(%2); }",
    "var_1 && var_3": "%1 && %3",
    '"a \\"quoted\\", text"': '"a \\"quoted\\", text"',
    "-1.5e-07": "-1.5e-07",
    "18446744073709551615ull": "18446744073709551615ull",
    "((var_0 < 0) ? (var_0 + var_a.shape[0]) : var_0)": "((%0 < 0) ? (%0 + %a.shape[0]) : %0)",
    "F(det, var_2 = wp::atomic_add(var_n, var_0, var_1);)": "F(det, %2 = wp::atomic_add(%n, %0, %1);)",
    "([&]() -> T { auto slot_adj_0 = adj_s; if (!slot_adj_0.data) return {}; return slot_adj_0; }())": (
        "([&]() -> T { auto slot_adj_0 = ^s; if (!slot_adj_0.data) return {}; return slot_adj_0; }())"
    ),
}


@pytest.mark.parametrize(("cpp", "wir"), CASES.items())
def test_both_spellings(cpp, wir):
    expression = read(cpp, CPP)
    assert expression.text(CPP) == cpp
    assert expression.text(WIR) == wir
    assert read(wir, WIR) == expression


@pytest.mark.parametrize(
    "text", ["", "var_1 +", "f(var_1", '"open', "var_1 var_2", "(" * 5000, "&" * 5000, "{a, }", "%1"]
)
def test_refused(text):
    with pytest.raises(ExprError):
        read(text, CPP)


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda name: not name.startswith(("var_", "adj_")))
EXPRESSIONS = st.recursive(
    st.one_of(
        st.builds(Primal, NAMES),
        st.builds(Dual, NAMES),
        st.builds(Name, NAMES),
        st.builds(Literal, st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?", fullmatch=True)),
    ),
    lambda inner: st.one_of(
        st.builds(Group, inner),
        st.builds(lambda e, n: Field(Group(e), n), inner, NAMES),
        st.builds(lambda op, e: Unary(op, Group(e)), st.sampled_from("&*!-~"), inner),
        st.builds(lambda e: Cast("wp::uint64*", Unary("&", Group(e))), inner),
        st.builds(
            lambda op, a, b: Binary(op, Group(a), Group(b)), st.sampled_from(["==", "<", "&&", "+", "*"]), inner, inner
        ),
        st.builds(lambda a, b, c: Group(Choice(Group(a), Group(b), Group(c))), inner, inner, inner),
        st.builds(lambda e, i: Subscript(Group(e), i), inner, inner),
        st.builds(lambda n, args: Call(Name(f"wp::{n}"), tuple(args)), NAMES, st.lists(inner, max_size=3)),
        st.builds(lambda args: Braces("", tuple(args)), st.lists(inner, max_size=3)),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_any_expression_prints_and_reads_back(expression):
    for how in (CPP, WIR):
        text = expression.text(how)
        assert read(text, how).text(how) == text
    assert {v.name for v in values(read(expression.text(WIR), WIR))} == {v.name for v in values(expression)}


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    for how in (CPP, WIR):
        with contextlib.suppress(ExprError):
            assert read(text, how).text(how) == text
