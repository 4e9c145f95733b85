#!/usr/bin/python3
"""Judges the sets that camouflage -csv wrote by scikit-learn's boosted trees.

    judge.py FOLDER [AUC.json]

Needs python3-sklearn of Debian. Prints the AUC of five folds for each set, and adds the
figures to the file of camouflage -json.
"""
import csv
import gzip
import json
import math
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

SETS = ["all-requests", "comparable-requests", "naive-prober"]


def read(path):
    with gzip.open(path, "rt") as f:
        rows = list(csv.reader(f))
    return np.array([[float(x) for x in row] for row in rows[1:]])


def auc_of(folder, name):
    """Returns the AUC, its error by Hanley and McNeil, and the samples of each kind."""
    hidden, consumers = (read(f"{folder}/{name}.{kind}.csv.gz") for kind in ("probes", "consumers"))
    x = np.vstack([hidden, consumers])
    y = np.r_[np.ones(len(hidden)), np.zeros(len(consumers))]
    trees = HistGradientBoostingClassifier(max_iter=120, max_depth=4, early_stopping=False, random_state=1)
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    a = roc_auc_score(y, cross_val_predict(trees, x, y, cv=folds, method="predict_proba")[:, 1])
    p, n = len(hidden), len(consumers)
    var = a * (1 - a) + (p - 1) * (a / (2 - a) - a * a) + (n - 1) * (2 * a * a / (1 + a) - a * a)
    return a, math.sqrt(max(0, var) / (p * n)), min(p, n)


def main():
    folder = sys.argv[1]
    figures = {name: auc_of(folder, name) for name in SETS}
    for name, (a, error, each) in figures.items():
        print(f"{name:21} {a:.3f} ± {error:.3f}  {each} of each  scikit-learn")
    if len(sys.argv) < 3:
        return
    with open(sys.argv[2]) as f:
        known = [k for k in json.load(f) if not k["classifier"].startswith("scikit-learn")]
    for name in SETS[:2]:
        known.append({"classifier": "scikit-learn, " + name.replace("-", " "), "probes": figures[name][0],
                      "naive": figures["naive-prober"][0], "samples": figures[name][2]})
    with open(sys.argv[2], "w") as f:
        json.dump(known, f, indent=2)
        f.write("\n")


if __name__ == "__main__":
    main()
