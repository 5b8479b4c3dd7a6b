"""How far a run has come: shown as a bar to a person, told to a program, or kept quiet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from bayespatch.check import check_flag

Tell = Callable[[int, int, str], object]  # (sweeps done, sweeps in all, "warm-up" or "sampling")
Report = Callable[[int, str], object]  # (sweeps done, phase)
Meter = Callable[[int], AbstractContextManager[Report]]  # sweeps in all -> something that takes reports


def progress_meter(progress: bool | Tell) -> Meter:
    """What takes the reports of a run: a bar on stderr (True), nothing (False), or a function of the caller's.

    The bar counts the sweeps of all chains and shows the phase, sweeps per second and the time left; it needs rich.
    """
    if callable(progress):
        return _telling(progress)
    return _bar() if check_flag("progress", progress) else _silent


@contextmanager
def _silent(total: int) -> Iterator[Report]:
    yield lambda done, phase: None


def _telling(tell: Tell) -> Meter:
    @contextmanager
    def told(total: int) -> Iterator[Report]:
        yield lambda done, phase: tell(done, total, phase)

    return told


def _bar() -> Meter:
    try:
        from rich import progress
        from rich.console import Console
        from rich.text import Text
    except ImportError as error:
        raise ImportError('progress=True needs rich: pip install "bayespatch[cli]"') from error

    class Speed(progress.ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.0f} sweeps/s" if speed else "")

    @contextmanager
    def bar(total: int) -> Iterator[Report]:
        columns = (
            progress.TextColumn("{task.description:<8}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            Speed(),
            progress.TimeRemainingColumn(elapsed_when_finished=True),
        )
        with progress.Progress(*columns, console=Console(stderr=True)) as shown:
            task = shown.add_task("warm-up", total=total)
            yield lambda done, phase: shown.update(task, completed=done, description=phase)

    return bar
