"""Heart disease, from the raw table to reports: fit, check convergence, score held-out patients, explain, report.

``python examples/heart.py`` writes to build/heart; ``--quick`` uses short chains for a quick test.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import bayespatch
from bayespatch import plot
from bayespatch.report import case_report, model_report


def main() -> None:
    options = parse_options()
    settings = {"chains": 2, "draws": 20, "warmup": 20} if options.quick else {"draws": 1000, "warmup": 500}

    # Raw values: numbers, codes with labels, and six patients with missing values. No preprocessing is needed.
    X, y = bayespatch.datasets.load_heart()
    past, new, y_past, y_new = train_test_split(X, y, test_size=60, stratify=y, random_state=0)
    clf = bayespatch.PatchworkClassifier(random_state=0, **settings).fit(past, y_past)

    print(clf.tuning_.to_frame().to_string(index=False))
    print(f"\nSlowest-mixing quantities (converged: {clf.diagnostics_.converged}):\n{clf.diagnostics_.worst()}")

    p = clf.predict_proba(new)
    print(f"\n60 held-out patients: AUC {roc_auc_score(y_new, p[:, 1]):.3f}, log loss {log_loss(y_new, p):.3f}")

    # The patient with the most uncertain prediction
    patient = new.iloc[abs(p[:, 1] - 0.5).argmin()]
    why = clf.explain(patient)
    print(f"\n{why}")

    options.out.mkdir(parents=True, exist_ok=True)
    plot.patchwork(why).figure.savefig(options.out / "patchwork.png")
    case_report(why, options.out / "patient.html", overwrite=True)
    model_report(clf, options.out / "model.html", intended_use="An example; not for patients.", overwrite=True)
    clf.save(options.out / "heart.bpatch", overwrite=True)
    print("\nWritten:", *sorted(str(path) for path in options.out.iterdir()), sep="\n  ")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/heart"), help="folder (default: build/heart)")
    parser.add_argument("--quick", action="store_true", help="short chains, for a quick test")
    return parser.parse_args()


if __name__ == "__main__":
    main()
