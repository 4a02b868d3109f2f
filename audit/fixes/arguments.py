"""A keyword argument given to a call, laid out as the call's others are."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from warp_audit.audit.fixes.brackets import bracketed

_NO_SPACE = cst.SimpleWhitespace("")


def set_keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """The call with the keyword added after its other arguments, or with the value of the one that it has."""
    for position, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == name:
            return call.with_changes(
                args=[*call.args[:position], arg.with_changes(value=value), *call.args[position + 1 :]]
            )
    added = cst.Arg(
        value,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(whitespace_before=_NO_SPACE, whitespace_after=_NO_SPACE),
    )
    return call.with_changes(args=_appended(call, added)) if call.args else call.with_changes(args=[added])


def _appended(call: cst.Call, added: cst.Arg) -> Sequence[cst.Arg]:
    *others, last = call.args
    if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
        last = last.with_changes(value=bracketed(last.value))
    between = _between(call)
    has_comma = isinstance(last.comma, cst.Comma)
    after = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    if isinstance(after, cst.ParenthesizedWhitespace):
        # The comment behind the last argument stays behind it; what else comes before `)` stays there.
        comment, after = after.first_line, after.with_changes(first_line=_without_comment(after.first_line))
        if isinstance(between, cst.ParenthesizedWhitespace):
            between = between.with_changes(first_line=comment)
        elif comment.comment is not None:
            between = after.with_changes(first_line=comment, empty_lines=[])
    old_comma = last.comma if isinstance(last.comma, cst.Comma) else cst.Comma()
    last = last.with_changes(comma=old_comma.with_changes(whitespace_after=between), whitespace_after_arg=_NO_SPACE)
    if has_comma:
        added = added.with_changes(comma=cst.Comma(whitespace_after=after))
    else:
        added = added.with_changes(whitespace_after_arg=after)
    return [*others, last, added]


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """What stands between two arguments of the call: a space, or a new line with its indent."""
    if len(call.args) > 1:
        comma = call.args[-2].comma
        model = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    else:
        model = call.whitespace_before_args
    if isinstance(model, cst.ParenthesizedWhitespace):
        return model.with_changes(first_line=_without_comment(model.first_line), empty_lines=[])
    return cst.SimpleWhitespace(" ")


def _without_comment(line: cst.TrailingWhitespace) -> cst.TrailingWhitespace:
    if line.comment is None:
        return line
    return line.with_changes(comment=None, whitespace=_NO_SPACE)
