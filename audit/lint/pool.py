"""Many files checked, in this process or in several; what comes out does not depend on which."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

from warp_audit.audit.lint.known import Known
from warp_audit.audit.lint.work import Checker, Job, crashed

Outcome: TypeAlias = "dict[str, Any]"
Task: TypeAlias = "tuple[Job, str]"
"""A file and what runs on it."""

# Fewer files than this are sooner checked than processes are started.
_WORTH_A_POOL = 24
_LARGEST_BATCH = 16

# A checker remembers what it has read, about 2.5 kB a line: it is made anew after so many.
_MOST_LINES = 500_000

_checkers: dict[Job, Checker] = {}
"""This process's checkers: each remembers the files that others import."""


def check_all(
    tasks: Sequence[Task], known: Sequence[Known], jobs: int | None, progress: Callable[[int], None]
) -> dict[str, Outcome]:  # fmt: skip
    """The outcome of each file.

    Args:
        tasks: what is to be checked.
        known: every rule there is.
        jobs: how many processes at most; ``None`` for as many as there are processors.
        progress: called with how many files are done.
    """
    if len(tasks) < _WORTH_A_POOL:
        outcomes: dict[str, Outcome] = {}
        _checkers.clear()
        with _uncollected():
            for job, path in tasks:
                outcomes[path] = _one(job, path, known)
                progress(len(outcomes))
        return outcomes
    # Also with one worker: a worker ends without taking a million objects apart one by one, which takes this
    # process longer than checking them.
    return _pooled(tasks, known, min(jobs or _processors(), len(tasks) // (_WORTH_A_POOL // 2)), progress)


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _pooled(
    tasks: Sequence[Task], known: Sequence[Known], workers: int, progress: Callable[[int], None]
) -> dict[str, Outcome]:  # fmt: skip
    size = max(1, min(_LARGEST_BATCH, len(tasks) // (workers * 4)))
    batches = [tasks[start : start + size] for start in range(0, len(tasks), size)]
    outcomes: dict[str, Outcome] = {}
    _load()
    executor = ProcessPoolExecutor(workers, _context(), _started)
    try:
        for done in as_completed([executor.submit(_batch, batch, known) for batch in batches]):
            outcomes.update(done.result())
            progress(len(outcomes))
    except BrokenProcessPool:
        executor.shutdown(wait=True, cancel_futures=True)
        for job, path in tasks:
            if path not in outcomes:
                outcomes[path] = _alone(job, path, known)
                progress(len(outcomes))
        return outcomes
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    executor.shutdown()
    return outcomes


def _alone(job: Job, path: str, known: Sequence[Known]) -> Outcome:
    """A file in a process of its own, after some file has brought a process down."""
    with ProcessPoolExecutor(1, _context(), _started) as executor:
        try:
            return executor.submit(_batch, [(job, path)], known).result()[path]
        except BrokenProcessPool:
            return crashed(job, path)


def _context() -> multiprocessing.context.BaseContext:
    # A forked process has everything loaded. This process runs no threads, so that is safe; elsewhere than on
    # Linux system libraries may run some.
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def _load() -> None:
    """Load what every worker needs, before there are any."""
    from warp_audit.audit.catalogue import all_rules

    all_rules()
    import_module("warp_audit.audit.check")
    import_module("warp_audit.audit.source.project")


def _started() -> None:
    """A worker dies of an interruption without a word, since the first process says it, and collects no garbage."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    _checkers.clear()


def _batch(tasks: Sequence[Task], known: Sequence[Known]) -> dict[str, Outcome]:
    return {path: _one(job, path, known) for job, path in tasks}


@contextmanager
def _uncollected() -> Iterator[None]:
    """Syntax trees are many objects that live on: looking for garbage among them costs a quarter of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _one(job: Job, path: str, known: Sequence[Known]) -> Outcome:
    try:
        checker = _checkers.get(job)
        if checker is None:
            checker = _checkers[job] = Checker(job, known)
        outcome = checker.file(path)
        if sum(each.lines for each in _checkers.values()) > _MOST_LINES:
            _checkers.clear()
            gc.collect()
        return outcome
    except Exception as bug:
        if os.environ.get("WARP_AUDIT_TRACEBACK"):
            traceback.print_exc()
        return {"failures": [f"{path}: unexpected {type(bug).__name__}: {bug}"]}
