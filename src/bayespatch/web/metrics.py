"""Metrics in the text format of Prometheus. Labels never contain data about patients or users."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bayespatch.casebase.cases import Definition
from bayespatch.casebase.monitoring import Monitoring

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests by route, method and status, and how long they took.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.count("/consult", "POST", 200, 0.08)
    >>> 'requests_total{route="/consult",method="POST",status="200"} 1' in metrics.text({"queue": 0})
    True
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.at_most: Counter[tuple[str, float]] = Counter()

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """One request."""
        self.requests[route, method, status] += 1
        self.seconds[route] += seconds  # type: ignore[assignment]
        for edge in BUCKETS:
            if seconds <= edge:
                self.at_most[route, edge] += 1

    def text(self, gauges: dict[str, float]) -> str:
        """All metrics, including current gauges; the name of a gauge may end in a label."""
        lines = ["# TYPE bayespatch_requests_total counter"]
        totals: Counter[str] = Counter()
        for (route, method, status), n in sorted(self.requests.items()):
            totals[route] += n
            lines.append(f'bayespatch_requests_total{{route="{route}",method="{method}",status="{status}"}} {n}')
        lines.append("# TYPE bayespatch_request_seconds histogram")
        for route, n in sorted(totals.items()):
            edges = [(str(edge), self.at_most[route, edge]) for edge in BUCKETS] + [("+Inf", n)]
            lines += [f'bayespatch_request_seconds_bucket{{route="{route}",le="{e}"}} {c}' for e, c in edges]
            lines.append(f'bayespatch_request_seconds_sum{{route="{route}"}} {self.seconds[route]:.6f}')
            lines.append(f'bayespatch_request_seconds_count{{route="{route}"}} {n}')
        kinds = {f"# TYPE bayespatch_{name.partition('{')[0]} gauge": None for name in gauges}
        for kind in kinds:
            name = kind.split()[2]
            own = {f"bayespatch_{one}": value for one, value in gauges.items()}
            lines += [kind, *(f"{one} {value:g}" for one, value in own.items() if one.partition("{")[0] == name)]
        return "\n".join([*lines, ""])


def labelled(name: str, label: str, value: str) -> str:
    r"""The name of a gauge with a label.

    Examples
    --------
    >>> labelled("outcomes", "class", 'no "disease"')
    'outcomes{class="no \\"disease\\""}'
    """
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}{{{label}="{escaped}"}}'


def monitoring_gauges(results: Monitoring, definition: Definition) -> dict[str, float]:
    """Gauges of the checks, without columns and outcomes that viewers must not see."""
    gauges: dict[str, float] = {
        "recent_consultations": results.consultations,
        labelled("alarms", "check", "population"): sum(one.alarm for one in results.population),
        labelled("alarms", "check", "calibration"): sum(one.alarm for one in results.calibration),
        labelled("alarms", "check", "outcome lag"): results.lag.alarm,
    }
    for shift in results.population:
        if shift.index is not None and not definition.features[shift.column].sensitive:
            gauges[labelled("population_stability_index", "column", shift.column)] = shift.index
    if not definition.target.sensitive:
        for one in results.calibration:
            gauges[labelled("outcomes_expected", "class", one.label)] = one.n * one.expected
            gauges[labelled("outcomes_observed", "class", one.label)] = one.n * one.observed
    for cohort, days in {"recent": results.lag.median, "before": results.lag.median_before}.items():
        if days is not None:
            gauges[labelled("outcome_lag_days", "cohort", cohort)] = days
    return gauges


def resident_bytes() -> float:
    """Memory of this process; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * 4096.0
