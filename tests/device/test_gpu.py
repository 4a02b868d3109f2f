"""Checks that need a CUDA device; skipped aloud where there is none."""

import pytest


@pytest.fixture(scope="module")
def device():
    warp = pytest.importorskip("warp")
    warp.init()
    devices = warp.get_cuda_devices()
    if not devices:
        pytest.skip("no CUDA device: the code that runs on a GPU was not compared with the build")
    return devices[0]


@pytest.mark.gpu
def test_the_code_that_runs_is_the_code_of_the_build(device, root, compiled, tmp_path, monkeypatch):
    """What Warp compiles and loads for this GPU has the ``.text`` of our build for its architecture."""
    import sys

    import warp

    from warp_audit.debugger.binary.cubin import read_cubin

    monkeypatch.syspath_prepend(str(root / "examples"))
    monkeypatch.setattr(warp.config, "kernel_cache_dir", str(tmp_path / "cache"))
    monkeypatch.setattr(warp.config, "cuda_output", "cubin")
    sys.modules.pop("spring_step", None)
    import spring_step

    with warp.ScopedDevice(device):
        spring_step.main()
    build = compiled(tmp_path / "build", root / "examples" / "spring_step.py", archs=(device.arch,))
    theirs = read_cubin(next((tmp_path / "cache").rglob("*.cubin")))
    ours = read_cubin(build.root / build.units[0].folder / "module.cubin")
    for name in theirs.functions:
        assert theirs.digest(name) == ours.digest(name)
