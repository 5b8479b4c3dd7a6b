"""Health records: the time for importing a bulk export.

``python benchmarks/health_records.py`` writes an export of synthetic patients (`tests/fhir/synthetic.py`), and reads it
as ``bayespatch casebase import --mapping`` does: every resource is validated, mapped and converted, and the cases
are added to a new case base. Target: 10,000 patients within a minute.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

WANTED = 60.0  # seconds for 10,000 patients


def main() -> None:
    from bayespatch.casebase import CaseBase
    from bayespatch.fhir import Mapping, read_bulk, to_frame
    from tests.fhir.synthetic import MAPPING, write_export

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--patients", type=int, default=10_000)
    n = parser.parse_args().patients
    with tempfile.TemporaryDirectory() as place:
        export = Path(place) / "export"
        write_export(export, n)
        size = sum(path.stat().st_size for path in export.iterdir()) / 1e6
        load = os.getloadavg()[0]
        begin, worked = time.perf_counter(), time.process_time()
        mapping = Mapping.load(MAPPING)
        frame = to_frame(read_bulk(export, mapping), mapping)
        read = time.perf_counter()
        with CaseBase.open(Path(place) / "clinic.db") as base:
            base.import_cases(frame, by="benchmark", target="infarction", id_column="patient", group_column="patient")
        end, cpu = time.perf_counter(), time.process_time() - worked
    parts = f"{read - begin:.1f} s to read and map, {cpu:.1f} s of processor time"
    print(f"{n} patients, {size:.0f} MB of NDJSON: {end - begin:.1f} s ({parts})")
    print(f"load of the machine at the start: {load:.1f} on {os.cpu_count()} cores")
    limit = WANTED * n / 10_000
    print(f"within {limit:.0f} s: {'yes' if end - begin <= limit else 'no'}")


if __name__ == "__main__":
    main()
