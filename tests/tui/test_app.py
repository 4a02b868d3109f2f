"""The terminal debugger's screen, driven by keys."""

import asyncio

import pytest

from warp_audit.tui.app import DebugApp
from warp_audit.tui.panes.code import CodePane


def drive(examples, size, steps, kernel="undistort"):
    """Run the app without a terminal; ``steps`` is an async function of (app, pilot)."""

    async def session():
        unit, code = examples.one(kernel)
        app = DebugApp(examples, unit, code)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(session())


def screen_text(app):
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


async def press(pilot, *keys):
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (40, 12)])
def test_every_size_shows_the_kernel(examples, size):
    async def steps(app, pilot):
        text = screen_text(app)
        assert "undistort" in text
        if size[1] >= 24:
            assert all(title in text for title in ("Python", "IR", "PTX", "SASS"))
            assert "i, j = wp.tid()" in text
            assert "ir:" in text

    drive(examples, size, steps)


def test_moving_lights_the_other_panes(examples):
    async def steps(app, pilot):
        await press(pilot, "slash", *"output[i", "enter")
        assert app.focus_state.level == "python"
        assert app.focus_state.nodes
        for pane in app.query(CodePane):
            assert pane.linked, pane.level
            assert all(pane.lines[at].nodes & app.focus_state.nodes for at in pane.linked)
        assert any("STG" in app.view.levels["sass"][at].text for at in app.query_one("#sass", CodePane).linked)
        text = screen_text(app)
        assert "array_store" in text
        sass = app.query_one("#sass", CodePane)
        assert sass.label(sass.lines[sass.cursor]) in text
        assert sass.cursor in sass.linked

    drive(examples, (160, 48), steps)


def test_from_sass_back_to_python(examples):
    async def steps(app, pilot):
        await press(pilot, "tab", "tab", "tab")
        assert app.focus_state.level == "sass"
        await press(pilot, "slash", *"STG", "enter")
        python = app.query_one("#python", CodePane)
        lit = [python.lines[at].text.strip() for at in python.linked]
        assert lit == ["output[i * 1920 + j] = result  # unchecked: nothing says that output has this many elements"]
        stack = str(app.query_one("#stack").render())
        assert "undistort camera_calibration.py" in stack

    drive(examples, (120, 40), steps)


def test_backward_and_back_keeps_the_line(examples):
    async def steps(app, pilot):
        await press(pilot, "j", "j", "j")
        before = app._python_place()
        await press(pilot, "b")
        assert app.view.code.passed == "backward"
        assert app._python_place() == before
        assert "backward" in screen_text(app)
        await press(pilot, "b")
        assert app.view.code.passed == "forward"

    drive(examples, (120, 40), steps)


def test_the_picker_narrows_and_opens(examples):
    async def steps(app, pilot):
        await press(pilot, "o")
        await press(pilot, *"spring_forces backward", "enter")
        assert app.view.code.name.startswith("spring_forces")
        assert app.view.code.passed == "backward"
        await press(pilot, "o", "escape")
        assert app.view.code.name.startswith("spring_forces")

    drive(examples, (80, 24), steps)


def test_zoom_search_and_edges(examples):
    async def steps(app, pilot):
        await press(pilot, "z")
        assert [pane.level for pane in app.query(CodePane) if pane.display] == ["python"]
        await press(pilot, "escape", "end", "down", "pagedown", "home", "up", "left", "right", "d")
        assert app.focus_state.position == 0
        await press(pilot, "slash", *"no such text", "enter", "n", "N", "slash", "escape", "enter")
        assert all(pane.display for pane in app.query(CodePane))

    drive(examples, (100, 30), steps)


def test_every_kernel_opens(examples):
    async def steps(app, pilot):
        for unit, code in app.codes.values():
            app.open(unit, code)
            await pilot.pause()
            assert app.view.levels["sass"]
            assert app.view.levels["python"]
            for at in range(0, len(app.view.levels["sass"]), 37):
                app.set_focus_to("sass", at)

    drive(examples, (120, 40), steps)
