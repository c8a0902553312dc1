"""How good the choice of a plan is: measured runs that differ in their plan alone, and the one that is predicted to be the fastest.

A group has the runs of one source, model, number of GPUs and batch. An outlier is left out: a run that takes more than
ten times as long for each layer and microbatch as the median of the runs of its model, tp, pp and micro_batch, of which
there are at least three.
"""
import collections
import dataclasses
import itertools
import statistics

from measured_runs import a100_steps, peak_memory, published, scores
from measured_runs.sources import source_of

OUTLIER = 10     # times the median
FEWEST = 3       # runs of which there is a median
LARGE_GROUP = 8  # runs, from which on a regret says something


@dataclasses.dataclass(frozen=True)
class Run:
    """A measured run and its request."""
    source: str
    model: str
    gpus: int
    batch: str      # what else is the same in a group
    request: dict
    seconds: float

    @property
    def plan(self):
        return ",".join(f"{name}={value}" for name, value in self.request["plan"].items() if value not in (0, "none"))

    @property
    def group(self):
        return self.source, self.model, self.gpus, self.batch

    @property
    def seconds_of_layer(self):
        """Seconds of a layer of a rank and a microbatch."""
        plan, model = self.request["plan"], self.request["model"]
        microbatches = self.request["global_batch"] / plan["dp"] / plan["micro_batch"]
        return self.seconds / (model["layers"] / plan["pp"]) / microbatches

    @property
    def alike(self):
        plan = self.request["plan"]
        return self.source, self.model, plan["tp"], plan["pp"], plan["micro_batch"]


def without_outliers(runs):
    """Returns the runs that are no outliers, and how many are."""
    alike = collections.defaultdict(list)
    for run in runs:
        alike[run.alike].append(run.seconds_of_layer)
    kept = [run for run in runs
            if len(alike[run.alike]) < FEWEST or run.seconds_of_layer <= OUTLIER * statistics.median(alike[run.alike])]
    return kept, len(runs) - len(kept)


def nanotron_runs(rows):
    for row in rows:
        if row["status"] != "Success":
            continue
        try:
            request = peak_memory.nanotron_request(row)
        except published.Unusable:
            continue
        yield Run("nanotron", row["model"], int(row["gpus"]), f"batch {row['global_batch']}", request, float(row["derived_iter_time_s"]))


def published_runs(rows):
    for row in rows:
        try:
            run = published.run_of(row, fp8=True, engine=True)
        except published.Unusable:
            continue
        if run.seconds is not None:
            yield Run(source_of(row["source_table"]).name, row["model"], int(row["gpus"]),
                      f"batch {row['global_batch']} of {row['seq_len']}, {run.request['precision']}", run.request, run.seconds)


def a100_runs(source, rows):
    for row in rows:
        request = a100_steps.request_of(row, a100_steps.CLUSTER) | {"engine": "megatron"}
        yield Run(source, f"layers {row['layers']}, hidden {row['hidden']}", int(row["gpus"]), f"batch {row['global_batch']} of {row['seq_len']}",
                  request, float(row["iter_time_ms"]) / 1000)


def right_order(pairs):
    """Returns how many of the pairs of runs are in the right order, and how many pairs there are. Runs that differ by less
    than 1% are in either order."""
    right = [(a.measured_s < b.measured_s) == (a.predicted_s < b.predicted_s) for a, b in itertools.combinations(pairs, 2)
             if abs(a.measured_s / b.measured_s - 1) > 0.01]
    return sum(right), len(right)


def compare(program, sources):
    """Predicts the runs of each source, a list of Run, by the presets and the engines' files. Returns the summary of each
    and its groups, the one with the largest regret first."""
    results = {}
    for name, runs in sources.items():
        kept, outliers = without_outliers(runs)
        groups = collections.defaultdict(list)
        refused = 0
        for run, answer in zip(kept, program.predict([run.request for run in kept])):
            if "error" in answer:
                refused += 1
            else:
                groups[run.group].append((run, scores.pair(run.plan, run.seconds, answer)))
        every = [pair for group in groups.values() for _, pair in group]
        if not every:
            continue
        rows = []
        for (_, model, gpus, batch), group in groups.items():
            if len(group) < 2:
                continue
            pairs = [pair for _, pair in group]
            right, of = right_order(pairs)
            picked, best = min(pairs, key=lambda one: one.predicted_s), min(pairs, key=lambda one: one.measured_s)
            rows.append({"model": model, "gpus": gpus, "batch": batch, "runs": len(pairs), "regret_percent": scores.percent(scores.regret_of(pairs)),
                         "pairs": of, "right_pairs": right, "picked": picked.name, "best": best.name,
                         "within_interval_percent": scores.score(pairs)["within_interval_percent"]})
        rows.sort(key=lambda one: -one["regret_percent"])
        large = [one["regret_percent"] for one in rows if one["runs"] >= LARGE_GROUP]
        pairs = sum(one["pairs"] for one in rows)
        results[name] = {
            "runs": len(every), "outliers": outliers, "refused": refused, "step_time": scores.score(every), "groups": rows,
            "regret": {"groups": len(rows), "mean_percent": scores.percent(statistics.mean(one["regret_percent"] for one in rows) / 100) if rows else None},
            "regret_of_large_groups": {"groups": len(large), "mean_percent": round(statistics.mean(large), 1) if large else None,
                                       "worst_percent": max(large, default=None)},
            "right_pairs_percent": scores.percent(sum(one["right_pairs"] for one in rows) / pairs) if pairs else None}
    return results
