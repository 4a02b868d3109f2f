"""The three kinds of failure, never mixed, and the exit code of each."""

from __future__ import annotations


class WarpAuditError(Exception):
    """Something went wrong that one sentence explains; never shown as a traceback.

    Args:
        message: what is wrong, without the place.
        where: the file, option or target at fault, if there is one.
        hint: what to do about it.
        command: the command that shows the same, when another program failed.
        output: what that program printed.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        command: str | None = None,
        output: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.command = command
        self.output = output

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class BadInput(WarpAuditError):
    """The user's file, option or target is at fault."""

    exit_code = 2


class ToolFailed(WarpAuditError):
    """Another program or library failed: NVRTC, nvdisasm, dot, Warp."""

    exit_code = 3


class BrokenPromise(WarpAuditError):
    """Our own bug: something that warp-audit guarantees does not hold."""

    exit_code = 4
