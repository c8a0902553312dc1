"""Runs of a publication, predicted by an engine whose figures were fitted to the other publications alone.

Some figures of three engines' files were fitted to published runs, those that they are compared with among them. Here,
each publication is left out in turn: of a few values of each fitted figure, those are taken that predict the other
publications of that engine best, each of which counts as much as the others. Its other figures, and the device's, stay.
"""
import collections
import copy
import itertools
import json
import math
import statistics

from measured_runs import scores
from measured_runs.sources import ROOT

# The values of a figure that are tried. All are shares of the device's efficiency of the same name.
CANDIDATES = {"narrow_matmul": (1.0, 1.08, 1.167, 1.25, 1.35, 1.45), "matmul_k_half": (1.0, 1.63, 2.67, 4.0, 6.0), "memory": (0.3, 0.45, 0.67, 1.0)}

NARROW = ("fp8", "mxfp8", "nvfp4")


def data_of(kind, name):
    return json.loads((ROOT / "search" / "data" / kind / f"{name}.json").read_text(encoding="utf-8"))


def fitted_figures(engine):
    """Returns the figures of an engine that were fitted, with their values."""
    data = data_of("engines", engine)
    names = [name for names, source in data.get("sources", {}).items() if source.startswith("fitted") for name in names.split(", ")]
    unknown = [name for name in names if name not in CANDIDATES]
    if unknown:
        raise ValueError(f"{engine}.json: {unknown[0]} was fitted, but has no values to try; give it some in CANDIDATES")
    return {name: data[name] for name in names}


def with_figures(request, fitted, values):
    """Returns the request for an engine whose fitted figures have these values: the device reaches more or less, as it
    does by the engine's share."""
    changed = copy.deepcopy(request)
    cluster = changed["cluster"]
    if isinstance(cluster["device"], str):
        preset = data_of("devices", cluster["device"])
        preset.pop("sources", None)
        cluster = changed["cluster"] = preset | {name: value for name, value in cluster.items() if name != "device"}
    device = cluster["device"]
    for name, value in values.items():
        # A share of the bandwidth may not exceed 1; the bandwidth itself has no such bound. The rate of a narrow format
        # stands for what is reached of it.
        rates = device["flops_per_s"]
        for where, key in {"memory": [(device, "memory_bytes_per_s")],
                           "narrow_matmul": [(rates, format) for format in NARROW if format in rates]}.get(name, [(device["efficiency"], name)]):
            where[key] *= value / fitted[name]
    return changed


def distance(seconds, answers):
    """Returns the mean absolute logarithm of predicted over measured."""
    return statistics.mean(abs(math.log(answer["step_time_s"] / measured)) for measured, answer in zip(seconds, answers))


def left_out_publications(program, runs):
    """Returns by source the score of its runs, and the figures that the other publications of its engine determine.
    runs: pairs of a source and a run that can be predicted and has a time. A source whose engine has no fitted figure,
    or no other publication, is left out."""
    results = {}
    engines = collections.defaultdict(list)
    for source, run in runs:
        if "engine" in run.request:
            engines[run.request["engine"]].append((source, run))
    for engine, own in engines.items():
        fitted = fitted_figures(engine)
        publications = {source.publication for source, _ in own}
        if not fitted or len(publications) < 2:
            continue
        choices = [dict(zip(fitted, values)) for values in itertools.product(*(CANDIDATES[name] for name in fitted))]
        answers = [program.predict([with_figures(run.request, fitted, values) for _, run in own]) for values in choices]
        for refused in (answer for some in answers for answer in some if "error" in answer):
            raise RuntimeError(f"a run is not predicted with other figures of {engine}: {refused['error']}")

        def rows_of(where):
            return [number for number, (source, _) in enumerate(own) if where(source)]

        for left_out in sorted(publications):
            others = [rows_of(lambda source, other=other: source.publication == other) for other in publications - {left_out}]
            best = min(range(len(choices)), key=lambda choice: statistics.mean(
                distance([own[row][1].seconds for row in rows], [answers[choice][row] for row in rows]) for rows in others))
            for name in sorted({source.name for source, _ in own if source.publication == left_out}):
                rows = rows_of(lambda source, name=name: source.name == name)
                pairs = [scores.pair(own[row][1].name, own[row][1].seconds, answers[best][row]) for row in rows]
                results[name] = {"fitted_to": sorted(publications - {left_out}), "figures": choices[best], "step_time": scores.score(pairs)}
    return results
