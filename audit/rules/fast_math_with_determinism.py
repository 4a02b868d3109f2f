"""Declares the rule ``fast-math-with-determinism``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.module import Module

_EXACT = {
    "numpy.array_equal", "numpy.testing.assert_array_equal", "numpy.testing.assert_equal", "torch.equal",
    "hashlib.sha256", "hashlib.md5", "hashlib.sha1", "hashlib.blake2b", "zlib.crc32",
}  # fmt: skip
_APPROXIMATED = {
    "sin", "cos", "tan", "exp", "log", "log2", "log10", "pow", "sqrt", "rsqrt", "tanh", "sinh", "cosh", "div",
    "normalize", "length", "atan2", "asin", "acos", "atan", "cbrt", "quat_from_axis_angle", "inverse", "svd3", "qr3",
}  # fmt: skip
"""Builtins that divide, take roots or call transcendental functions."""


class FastMathWithDeterminism(Rule):
    """``fast_math`` is on where the same code asks for reproducible results.

    What it finds: ``fast_math`` set to true in module or kernel options of a file that asks for determinism
    (``deterministic`` in the options or in ``wp.config``, ``torch.use_deterministic_algorithms``), turns fused
    multiply-add off, or compares results of its kernels for exact equality or by a hash.

    Why it matters: fast math replaces division, roots and transcendental functions by approximations and flushes small
    numbers to zero. The results differ from those of the CPU and between GPU architectures and compilers, which no
    deterministic mode for atomics can mend.

    Instead: leave ``fast_math`` off where bits matter, or compare with a tolerance.
    """

    code = "WPA733"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#intrinsic-functions",)
    fix_safety = Safety.UNSAFE
    words = ("fast_math",)
    BAD = (
        """
        wp.config.deterministic = wp.DeterministicMode.GPU_TO_GPU
        wp.set_module_options({"fast_math": True})  # error: WPA733

        @wp.kernel
        def wave(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = wp.sin(x[i])
        """,
        """
        import torch

        @wp.kernel(module="unique", module_options={"fast_math": True, "fuse_fp": False})  # error: WPA733
        def wave(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = wp.sin(x[i])

        def tune(module):
            module.options["fast_math"] = True  # error: WPA733
            torch.use_deterministic_algorithms(True)

        OPTIONS = dict(fast_math=True, deterministic=wp.DeterministicMode.RUN_TO_RUN)  # error: WPA733
        """,
        """
        import numpy as np

        wp.set_module_options(options={"enable_backward": False, "fast_math": True})  # error: WPA733

        @wp.kernel
        def wave(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = wp.sin(x[i])

        def check(x, golden):
            wp.launch(wave, dim=x.shape[0], inputs=[x])
            np.testing.assert_array_equal(x.numpy(), golden)
        """,
    )
    GOOD = (
        """
        import numpy as np

        wp.set_module_options({"fast_math": True, "deterministic": wp.DeterministicMode.NOT_GUARANTEED})

        @wp.kernel
        def wave(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = wp.sin(x[i])

        def check(x, count, golden):
            wp.launch(wave, dim=x.shape[0], inputs=[x])
            np.testing.assert_allclose(x.numpy(), golden, rtol=1e-4)
            assert np.array_equal([1, 2], count)
        """,
        """
        import numpy as np

        wp.set_module_options({"fast_math": True})

        @wp.kernel
        def move(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            y[i] = x[i]

        def check(x, y):
            wp.launch(move, dim=x.shape[0], inputs=[x, y])
            return np.array_equal(x.numpy(), y.numpy())
        """,
        """
        wp.config.deterministic = wp.DeterministicMode.RUN_TO_RUN
        wp.set_module_options({"fast_math": False})

        @wp.kernel
        def wave(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = wp.sin(x[i])
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if not _TURNED_ON.search(module.text):
            return
        for switch, value in _switches(module):
            reason = _beside(switch, module) or _asked(module) or _compared(module)
            if reason is not None:
                yield self.at(
                    module, value, f"fast_math is on, but {reason}",
                    "approximations give other bits on other devices: leave it off, or compare with a tolerance",
                    fix=self.mend("Turn fast_math off", Replace(Place.of(value), "False")),
                )  # fmt: skip


_TURNED_ON = re.compile(r"""\bfast_math["']?\]?\s*[:=]\s*True""")


def _options(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """The keys and values of a dictionary or a ``dict()`` call."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return [(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
    return []


def _switches(module: Module) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The options of the file that turn fast math on, each with its ``True``."""
    for node in walk(module.tree):
        for name, value in _options(node):
            if name == "fast_math" and _is_true(value):
                yield node, value
        if isinstance(node, ast.Assign) and _is_true(node.value) and isinstance(node.targets[0], ast.Subscript):
            key = node.targets[0].slice
            if isinstance(key, ast.Constant) and key.value == "fast_math":
                yield node, node.value


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _beside(options: ast.AST, module: Module) -> str | None:
    """What the same options ask for."""
    for name, value in _options(options):
        if name == "deterministic" and _asks(value, module):
            return "the same options ask for deterministic results"
        if name == "fuse_fp" and isinstance(value, ast.Constant) and value.value is False:
            return "the same options turn fused multiply-add off, which only exact results need"
    return None


def _asks(node: ast.expr, module: Module) -> bool:
    if isinstance(node, ast.Constant):
        return bool(node.value)
    name = module.qualified(node, module.scope)
    return name is not None and name.endswith(("RUN_TO_RUN", "GPU_TO_GPU"))


def _asked(module: Module) -> str | None:
    """What the file asks for at its top level."""
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                name = module.qualified(target, module.scope)
                if name == "warp.config.deterministic" and _asks(statement.value, module):
                    return f"line {statement.lineno} asks for deterministic results"
                if name == "torch.backends.cudnn.deterministic" and _is_true(statement.value):
                    return f"line {statement.lineno} asks for deterministic results"
    for scope in module.scope.walk():
        for call in scope.calls:
            name = module.qualified(call.func, scope)
            if not call.args or name not in ("torch.use_deterministic_algorithms", "warp.set_module_options"):
                continue
            wanted = [value for key, value in _options(call.args[0]) if key == "deterministic"]
            if _is_true(call.args[0]) or any(_asks(value, module) for value in wanted):
                return f"line {call.lineno} asks for deterministic results"
    return None


def _compared(module: Module) -> str | None:
    """An exact comparison, or a hash, of what the file's kernels have written."""
    for function in module.host_functions:
        if not any(_is_approximated(kernel) for launch in function.launches for kernel in launch.kernels):
            continue
        for call in function.calls:
            if call.name in _EXACT and any(_is_result(function.value_of(argument)) for argument in call.node.args):
                return f"line {call.node.lineno} compares results bit by bit"
    return None


def _is_approximated(function: DeviceFunction, depth: int = 0) -> bool:
    """Whether a kernel, or a func that it calls, divides or calls a function that fast math approximates."""
    if any(isinstance(node.op, (ast.Div, ast.Pow)) for node in function.flow.of(ast.BinOp)):  # type: ignore[attr-defined]
        return True
    for call, _ in function.calls():
        if function.builtin(call) in _APPROXIMATED:
            return True
        callee = function.callee(call)
        if callee is not None and depth < 4 and _is_approximated(callee, depth + 1):
            return True
    return False


def _is_result(node: ast.expr) -> bool:
    """``x.numpy()``, ``x.numpy().tobytes()``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "numpy":
            return True
        node = node.func.value
    return False
