"""Progress of a run: a progress bar, calls of a function, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bayespatch.validation import check_flag

Tell = Callable[[int, int, str], object]  # (steps done, total steps, phase, such as "warm-up" or "leave-one-out")
Report = Callable[[int, str], object]  # (steps done, phase)
Meter = Callable[
    [int], AbstractContextManager[Report]
]  # total steps -> a context manager that yields the receiver of reports


def progress_meter(progress: bool | Tell, unit: str = "sweeps") -> Meter:
    """The receiver of progress reports: a bar on stderr (True), nothing (False), or the caller's function.

    The bar counts the sweeps of all chains, or another `unit`, and shows the phase, the speed and the remaining time;
    it requires rich.
    """
    if callable(progress):
        return _telling(progress)
    return _bar(unit) if check_flag("progress", progress) else silent


@contextmanager
def silent(total: int) -> Iterator[Report]:
    """Shows nothing."""
    yield lambda done, phase: None


def _telling(tell: Tell) -> Meter:
    @contextmanager
    def telling(total: int) -> Iterator[Report]:
        yield lambda done, phase: tell(done, total, phase)

    return telling


def _bar(unit: str) -> Meter:
    try:
        from rich import progress
        from rich.console import Console
        from rich.text import Text
    except ImportError as error:
        raise ImportError('progress=True needs rich: pip install "bayespatch[cli]"') from error

    class Speed(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            speed = task.finished_speed or task.speed
            if not speed:
                return Text("")
            return Text(f"{speed:.0f} {unit}/s" if speed >= 2 else f"{1 / speed:.0f} s for each of the {unit}")

    @contextmanager
    def bar(total: int) -> Iterator[Report]:
        columns = (
            progress.TextColumn("{task.description:<16}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            Speed(),
            progress.TimeRemainingColumn(elapsed_when_finished=True),
        )
        with progress.Progress(*columns, console=Console(stderr=True)) as shown:
            task = shown.add_task("", total=total)
            yield lambda done, phase: shown.update(task, completed=done, description=phase)

    return bar
