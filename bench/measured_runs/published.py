"""Published runs, predicted from presets."""
import collections
import csv
import dataclasses
import json
import re
import statistics

from measured_runs import scores
from measured_runs.engine_fits import left_out_publications
from measured_runs.sources import ROOT, cluster_of, source_of

FP8 = "fp8 is not predicted"
GB = 1e9
COLUMNS = ("row_id", "source_table", "model", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "ffn_mats", "vocab", "seq_len", "gpu", "gpus",
           "gpus_per_node", "TP", "PP", "DP", "CP", "EP", "SP", "virtual_stages", "micro_batch", "global_batch", "recompute", "zero",
           "precision", "iter_time_s", "derived_iter_time_s", "peak_mem_GB", "mem_kind", "notes")


class Unusable(Exception):
    """The reason why a row cannot be predicted."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A row as a request, and what was measured: seconds of a step (None: not published), bytes of the fullest GPU
    (None: not published) and whether they count what the driver and libraries take, and whether it ran out of memory.
    keeps_as_planned: whether the plan says what the run kept of its activations."""
    name: str
    request: dict
    seconds: float
    peak_bytes: float
    peak_of_device: bool
    ran_out: bool
    keeps_as_planned: bool


def whole(row, name, default=None):
    """Returns a whole number, which a remark in brackets may follow."""
    text = row.get(name, "")
    if text == "" and default is not None:
        return default
    match = re.fullmatch(r"(\d+)( \(.*\))?", text)
    if not match:
        raise Unusable(f"{name} is not published")
    return int(match[1])


def is_positive(text):
    try:
        return float(text) > 0
    except ValueError:
        return False


def zero_stage_of(text):
    for words, stage in ((("zero3",), 3), (("zero2",), 2), (("zero1", "distributed optimizer"), 1), (("none", "zero0"), 0)):
        if any(word in text.lower() for word in words):
            return stage
    raise Unusable("sharding is not published")


def precision_of(text, fp8):
    text = text.lower()
    if "fp8" in text:
        if not fp8:
            raise Unusable(FP8)
        return "fp8"
    return "fp16" if text.startswith("fp16") else "bf16"


def keeps_as_planned(recompute):
    """Returns whether an option of a plan says what was recomputed: all, nothing, or attention alone."""
    name, _, what = recompute.partition(" ")
    return name != "selective" or what in ("", "(core_attn)", "(yaml: attention only)")


def plan_of(row, source):
    recompute = row["recompute"].split(" ")[0]
    # NVIDIA's summaries of fp8 runs do not say it. Attention is fused there, and recipes of that size store all else.
    if recompute == "not" and source.engine == "nemo":
        recompute = "none"
    if recompute not in ("none", "full", "selective"):
        raise Unusable("recomputation is not published")
    # The scores of attention are what is recomputed; fused attention keeps none.
    if recompute == "selective" and not source.unfused:
        recompute = "none"
    stages = whole(row, "virtual_stages", 1)
    plan = {"tp": whole(row, "TP"), "pp": whole(row, "PP"), "dp": whole(row, "DP"), "micro_batch": whole(row, "micro_batch"),
            "virtual_stages": stages, "schedule": "interleaved" if stages > 1 else "1f1b", "recompute": recompute,
            "attention": "unfused" if source.unfused else "fused", "sequence_parallel": whole(row, "SP", 0),
            "zero_stage": zero_stage_of(row["zero"])}
    if whole(row, "layers") % (plan["pp"] * stages) != 0:
        plan["split"] = "auto"
    if source.scatter_gather:
        plan["scatter_gather"] = 1
    if source.overlapped and plan["zero_stage"] >= 2:
        plan |= {"grad_overlap": 1, "param_overlap": 1}
    return plan


def model_of(row):
    heads = whole(row, "heads")
    model = {"layers": whole(row, "layers"), "hidden": whole(row, "hidden"), "heads": heads, "kv_heads": whole(row, "kv_heads", heads),
             "ffn_hidden": whole(row, "ffn_hidden"), "vocab": whole(row, "vocab"), "max_seq_len": whole(row, "seq_len")}
    if row["ffn_mats"] == "3":
        model |= {"activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": False, "tied_embeddings": False}
    return model


def run_of(row, fp8=False, engine=False):
    """Converts a row of a table of published runs. fp8, engine: whether the program takes that precision and the field
    `engine`. Raises Unusable."""
    if row["EP"] != "1" or "MoE" in row["model"] + row["notes"]:
        raise Unusable("mixture of experts")
    if row["CP"] not in ("", "1"):
        raise Unusable("context parallelism")
    precision = precision_of(row["precision"], fp8)
    source = source_of(row["source_table"])
    gpus = whole(row, "gpus")
    cluster = cluster_of(row["gpu"], gpus, whole(row, "gpus_per_node", 8), source)
    if cluster is None:
        raise Unusable(f"the figures of {row['gpu']} are not known")
    seconds = row["iter_time_s"] or row["derived_iter_time_s"]
    ran_out = row["peak_mem_GB"] == "OOM"
    peak = row["peak_mem_GB"] if is_positive(row["peak_mem_GB"]) else ""
    if not (seconds or peak or ran_out):
        raise Unusable("neither a step time nor a peak of memory is published")
    if seconds and not is_positive(seconds):
        raise Unusable("the step time is not a positive number")
    request = {"id": row["row_id"], "model": model_of(row), "cluster": cluster, "global_batch": whole(row, "global_batch"),
               "seq_len": whole(row, "seq_len"), "precision": precision, "plan": plan_of(row, source)}
    if engine and source.engine:
        request["engine"] = source.engine
    return Run(row["row_id"], request, float(seconds) if seconds else None, float(peak) * GB if peak else None,
               row["mem_kind"].startswith("nvidia-smi"), ran_out, keeps_as_planned(row["recompute"]))


def reason_of(error):
    """Shortens the error of an answer, so that rows with the same one count together."""
    illegal = re.search(r"illegal plan .*\((\w+)\)", error)
    return f"illegal plan: {illegal[1]}" if illegal else error.split(";")[0]


def memory_of(runs_and_answers):
    """Returns the summary of peak memories and of runs that ran out, or None if none is published."""
    rows, errors, other = [], [], []
    out = [answer for run, answer in runs_and_answers if run.ran_out]
    for run, answer in runs_and_answers:
        if run.peak_bytes is None:
            continue
        if not run.keeps_as_planned:
            other.append(run.name)
            continue
        ours = answer["memory_bytes"]["total"] - (0 if run.peak_of_device else answer["memory_bytes"]["device_overhead"])
        errors.append(ours / run.peak_bytes - 1)
        rows.append({"run": run.name, "measured_gb": round(run.peak_bytes / GB, 1), "predicted_gb": round(ours / GB, 1),
                     "error_percent": scores.percent(errors[-1])})
    if not rows and not out and not other:
        return None
    result = {"rows": len(rows), "recomputed_what_no_option_says": other, "ran_out_of_memory": len(out), "of_them_predicted_not_to_fit": sum(not answer["feasible"] for answer in out)}
    if rows:
        result |= {"median_absolute_error_percent": scores.percent(statistics.median(abs(error) for error in errors)),
                   "median_error_percent": scores.percent(statistics.median(errors)), "runs": rows}
    return result


def summary(rows, left_out, runs_and_answers):
    timed = [scores.pair(run.name, run.seconds, answer) for run, answer in runs_and_answers if run.seconds is not None]
    ran = [(run, answer) for run, answer in runs_and_answers if run.seconds is not None]
    result = {"rows": rows, "expressed": len(runs_and_answers), "left_out": {reason: len(names) for reason, names in left_out.items()}}
    if timed:
        result["step_time"] = scores.score(timed)
        result["ran_but_predicted_not_to_fit"] = [run.name for run, answer in ran if not answer["feasible"]]
    memory = memory_of(runs_and_answers)
    if memory:
        result["peak_memory"] = memory
    return result, timed


def compare(program, rows):
    """Predicts all rows and returns the summary of them, and that of each source."""
    fp8, engine = program.knows("precision", "fp8"), program.knows("engine", "megatron")
    tables = {row["row_id"]: row["source_table"] for row in rows}
    left_out, runs, sources = collections.defaultdict(list), [], {name: source_of(table).name for name, table in tables.items()}
    for row in rows:
        try:
            runs.append(run_of(row, fp8, engine))
        except Unusable as reason:
            left_out[str(reason)].append(row["row_id"])
    answered = []
    for run, answer in zip(runs, program.predict([run.request for run in runs])):
        if "error" in answer:
            left_out[reason_of(answer["error"])].append(run.name)
        else:
            answered.append((run, answer))
    total, timed = summary(len(rows), left_out, answered)
    total.get("peak_memory", {}).pop("runs", None)  # the sources have them
    total |= {"engine_named": engine, "worst": scores.worst(timed), "left_out_rows": dict(left_out), "sources": {}}
    fits = left_out_publications(program, [(source_of(tables[run.name]), run) for run, _ in answered if run.seconds is not None])
    for name in dict.fromkeys(sources.values()):
        own = {reason: [row for row in names if sources[row] == name] for reason, names in left_out.items()}
        one, timed = summary(sum(source == name for source in sources.values()), {reason: names for reason, names in own.items() if names},
                             [(run, answer) for run, answer in answered if sources[run.name] == name])
        if timed:
            one["error_percent"] = {pair.name: scores.percent(pair.error) for pair in timed}
        if name in fits:
            one["publication_left_out"] = fits[name]
        total["sources"][name] = one
    return total


def sc21_rows():
    """Returns the ten runs of tests/accuracy/sc21_runs.h as rows. Its seconds come from the published rate and the
    FLOPs of the paper's equation 3."""
    text = (ROOT / "tests" / "accuracy" / "sc21_runs.h").read_text(encoding="utf-8")
    rows = []
    for name, *numbers in re.findall(r'^    \{"([\w.-]+)", (\d+), (\d+), (\d+), (\d+), (\d+), (\d+), (\d+)\},$', text, re.MULTILINE):
        gpus, tp, pp, micro_batch, batch, stages, teraflops = map(int, numbers)
        model = json.loads((ROOT / "search" / "data" / "models" / f"{name}.json").read_text(encoding="utf-8"))
        layers, hidden, seq, vocab = (model[field] for field in ("layers", "hidden", "max_seq_len", "vocab"))
        flops = 96 * batch * seq * layers * hidden ** 2 * (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden))
        rows.append({"row_id": f"sc21 {name}", "source_table": "Narayanan 2021, table 1", "model": name, "layers": layers, "hidden": hidden,
                     "heads": model["heads"], "kv_heads": "", "ffn_hidden": 4 * hidden, "ffn_mats": 2, "vocab": vocab, "seq_len": seq,
                     "gpu": "A100-80GB-SXM", "gpus": gpus, "gpus_per_node": 8, "TP": tp, "PP": pp, "DP": gpus // tp // pp, "CP": 1, "EP": 1,
                     "SP": 0, "virtual_stages": stages, "micro_batch": micro_batch, "global_batch": batch, "recompute": "full", "zero": "none",
                     "precision": "fp16", "iter_time_s": flops / gpus / (teraflops * 1e12), "derived_iter_time_s": "", "peak_mem_GB": "",
                     "mem_kind": "", "notes": ""})
    return [{name: str(value) for name, value in row.items()} for row in rows]


def read(path, columns):
    """Returns the rows of a CSV file, which may have comments (#). Raises ValueError if it lacks a column or has no row."""
    with path.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader((line for line in lines if not line.startswith("#")), restval=""))
    if not rows:
        raise ValueError(f"{path.name} has no rows; give a table of measured runs")
    missing = [name for name in columns if name not in rows[0]]
    if missing:
        raise ValueError(f"{path.name} lacks the column {missing[0]}; add it")
    return rows


def kept_rows():
    """Returns the published runs that the project keeps."""
    return sc21_rows() + read(ROOT / "bench" / "published" / "korthikanti_2022.csv", COLUMNS)
