"""Shared by all tests: one kernel cache, builds that are made once, GPU checks that skip aloud."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
os.environ.setdefault("WARP_CACHE_PATH", str(ROOT / "build" / "warp-cache"))
sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != ROOT]  # the installed package is meant


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="rewrite golden files with what is printed now")


@pytest.fixture
def bless(request):
    return request.config.getoption("--bless")


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def warp_version():
    from warp_audit.compiler.tap.seams import warp_version

    return tuple(int(part) for part in warp_version().split(".")[:2])


def make(build_dir, *targets, **options):
    """Compile targets into a build folder, as the command line does."""
    from warp_audit.compiler.stages.session import Request
    from warp_audit.debugger.builds import make_build

    return make_build(Request(build_dir=str(build_dir), targets=tuple(map(str, targets)), **options))


@pytest.fixture(scope="session")
def compiled():
    return make


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    """The bundled examples, compiled and indexed once."""
    names = ("camera_calibration", "lidar_filter", "spring_step")
    build = make(tmp_path_factory.mktemp("examples"), *(ROOT / "examples" / f"{name}.py" for name in names))
    assert not build.refused
    assert not build.failed
    return build
