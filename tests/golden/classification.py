"""Writes tests/metrics/golden/classification.json: results of scikit-learn (1.9) and SciPy (1.17), with which
tests/metrics/test_classification.cc compares qkv::metrics.

Run from the repository root.
"""

import json
import random
import warnings

import numpy as np
from scipy import stats
from sklearn import metrics

warnings.filterwarnings("ignore")  # undefined ratios are 0
rng = random.Random(20261122)


def classes(count, items, accuracy, unused=0):
    truths = [rng.randrange(count - unused) for _ in range(items)]
    predicted = [t if rng.random() < accuracy else rng.randrange(count - unused) for t in truths]
    return truths, predicted


CLASSES = [
    (2, [0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 1]),
    (2, [1, 1, 1, 1], [1, 1, 0, 1]),
    (2, [0, 1, 0, 1], [1, 1, 1, 1]),
    (3, [0, 0, 0], [0, 0, 0]),
    (2, *classes(2, 101, 0.8)),
    (3, *classes(3, 57, 0.5)),
    (7, *classes(7, 200, 0.7, unused=2)),
    (17, *classes(17, 300, 0.9)),
]

NUMBERS = [
    ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]),
    ([0.5, 0.5, 2, 2, 7, 1], [1, 3, 3, 3, 2, 0]),
    ([rng.choice([0, 0.25, 0.5, 1, 3.5, 5]) for _ in range(80)], [rng.gauss(0, 1) for _ in range(80)]),
    ([1e6 + i for i in range(20)], [i * i for i in range(20)]),
    ([-1.5, 4], [3, -2]),
]

result = {"classes": [], "numbers": []}
for count, truths, predicted in CLASSES:
    labels = list(range(count))
    f1 = metrics.f1_score(truths, predicted, average=None, labels=labels, zero_division=0)
    result["classes"].append({
        "classes": count, "truths": truths, "predicted": predicted,
        "accuracy": metrics.accuracy_score(truths, predicted),
        "macro_f1": metrics.f1_score(truths, predicted, average="macro", zero_division=0),
        "micro_f1": metrics.f1_score(truths, predicted, average="micro", zero_division=0),
        "f1": f1.tolist(),
        "precision": metrics.precision_score(truths, predicted, average=None, labels=labels, zero_division=0).tolist(),
        "recall": metrics.recall_score(truths, predicted, average=None, labels=labels, zero_division=0).tolist(),
        "matthews": metrics.matthews_corrcoef(truths, predicted),
        "confusion": metrics.confusion_matrix(truths, predicted, labels=labels).tolist(),
    })
for x, y in NUMBERS:
    result["numbers"].append({
        "x": x, "y": y, "pearson": float(stats.pearsonr(x, y).statistic),
        "spearman": float(stats.spearmanr(x, y).statistic), "ranks": stats.rankdata(x).tolist(),
    })
with open("tests/metrics/golden/classification.json", "w", encoding="utf-8", newline="\n") as out:
    for name, last in (("classes", False), ("numbers", True)):
        lines = ",\n".join(json.dumps(one, default=np.ndarray.tolist) for one in result[name])
        out.write(("{" if not last else "") + f'"{name}": [\n{lines}\n]' + ("}\n" if last else ",\n"))
