#!/usr/bin/env python3
"""Measures how far predictions without hardware are from published step times. Asserts nothing.

usage: bench/published_accuracy.py [--host-op-s SECONDS] BUILD_DIR DIRECTORY     (or AUTOCFG_VALIDATION=DIRECTORY)

DIRECTORY holds published_runs.csv, a100_single_node.csv and a100_multi_node.csv: configurations and step times published by
their owners, which are not part of the project. Each row becomes a request to `autocfg predict --requests`. Rows that lack a
figure, or have an option that is not predicted yet, are skipped and counted by reason.

Prints one JSON object:
- the errors (predicted over measured, minus one) by file and, for the published runs, row by row;
- how many measured times lie within, below and above the interval of their prediction;
- the width of the interval (high over low: the median and the 90th percentile).

With --host-op-s, the clusters' hosts take that long to issue an op. 115e-6 fits the rows of the single node best: its small
layers are limited by the host.
"""
import argparse
import collections
import csv
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

DEVICES = {"A100-80GB-SXM": "a100-80gb-sxm", "A100-40GB-SXM": "a100-40gb-sxm", "H100-80GB-SXM": "h100-sxm",
           "H200-141GB-SXM": "h200-sxm", "B200-180GB": "b200-sxm"}
# Sources without fused attention kernels; the others had them.
UNFUSED = ("Narayanan", "Korthikanti", "BLOOM", "GLM", "NeMo-Megatron README")


class Unusable(Exception):
    """The reason why a row cannot be predicted."""


def whole(row, name, default=None):
    text = row.get(name, "")
    if not text.isdigit():
        if default is not None and text == "":
            return default
        raise Unusable(f"{name} is not given as a number")
    return int(text)


def published_request(row):
    """Converts a row of published_runs.csv to a request and its measured seconds."""
    device = DEVICES.get(row["gpu"])
    if device is None:
        raise Unusable(f"gpu {row['gpu']} has no preset")
    if row["CP"] not in ("", "1") or row["EP"] not in ("", "1"):
        raise Unusable("context or expert parallelism")
    if "fp8" in row["precision"].lower():
        raise Unusable("fp8")
    precision = "fp16" if row["precision"].lower().startswith("fp16") else "bf16"
    zero = row["zero"].lower()
    if "none" in zero or zero == "zero0":
        zero_stage = 0
    elif zero.startswith("zero1") or zero.startswith("distributed optimizer"):
        zero_stage = 1
    else:
        raise Unusable(f"sharding: {row['zero']}")
    recompute = row["recompute"].split(" ")[0]
    if recompute not in ("none", "full", "selective"):
        raise Unusable("recomputation is not published")
    unfused = row["source_table"].startswith(UNFUSED)
    gated = row["ffn_mats"] == "3"
    seconds = row["iter_time_s"] or row["derived_iter_time_s"]
    if not seconds:
        raise Unusable("no step time")
    model = {"layers": whole(row, "layers"), "hidden": whole(row, "hidden"), "heads": whole(row, "heads"),
             "kv_heads": whole(row, "kv_heads", whole(row, "heads")), "ffn_hidden": whole(row, "ffn_hidden"),
             "vocab": whole(row, "vocab"), "max_seq_len": whole(row, "seq_len")}
    if gated:
        model |= {"activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": False, "tied_embeddings": False}
    per_node = whole(row, "gpus_per_node", 8)
    gpus = whole(row, "gpus")
    virtual_stages = whole(row, "virtual_stages", 1)
    plan = {"tp": whole(row, "TP"), "pp": whole(row, "PP"), "dp": whole(row, "DP"), "micro_batch": whole(row, "micro_batch"),
            "virtual_stages": virtual_stages, "schedule": "interleaved" if virtual_stages > 1 else "1f1b", "recompute": recompute,
            "attention": "unfused" if unfused else "fused", "sequence_parallel": whole(row, "SP", 0), "zero_stage": zero_stage}
    if row["source_table"].startswith(("Narayanan", "Korthikanti")):
        plan["scatter_gather"] = 1
    request = {"id": row["row_id"], "model": model,
               "cluster": {"device": device, "nodes": max(1, math.ceil(gpus / per_node)), "gpus_per_node": min(gpus, per_node)},
               "global_batch": whole(row, "global_batch"), "seq_len": whole(row, "seq_len"), "precision": precision, "plan": plan}
    return request, float(seconds)


def megatron_request(row, identifier):
    """Converts a row of the A100 measurements: Megatron-DeepSpeed, full recomputation, 800 Gb/s to each node of eight."""
    size = {name: int(row[name]) for name in ("layers", "hidden", "heads", "seq_len", "global_batch", "micro_batch", "tp", "pp", "dp",
                                              "gpus")}
    request = {"id": identifier,
               "model": {"layers": size["layers"], "hidden": size["hidden"], "heads": size["heads"], "vocab": 51200,
                         "max_seq_len": size["seq_len"]},
               "cluster": {"device": "a100-80gb-sxm", "nodes": max(1, math.ceil(size["gpus"] / 8)), "gpus_per_node": min(8, size["gpus"]),
                           "inter_node_bytes_per_s": 12.5e9},
               "global_batch": size["global_batch"], "seq_len": size["seq_len"], "precision": "fp16",
               "plan": {name: size[name] for name in ("tp", "pp", "dp", "micro_batch")} | {"recompute": "full", "attention": "unfused"}}
    return request, float(row["iter_time_ms"]) / 1000


def predict(build, requests):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for request in requests:
            file.write(json.dumps(request) + "\n")
        file.flush()
        command = [build / "bin" / "autocfg", "predict", "--requests", file.name]
        answers = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in answers.stdout.splitlines()]


def report(build, name, rows, to_request, each, host_op_s):
    requests, measured, left_out = [], [], collections.Counter()
    for number, row in enumerate(rows):
        try:
            request, seconds = to_request(row, f"{name}-{number}") if to_request is megatron_request else to_request(row)
        except Unusable as reason:
            left_out[str(reason)] += 1
            continue
        if host_op_s is not None:
            request["cluster"]["host_op_s"] = host_op_s
        requests.append(request)
        measured.append(seconds)
    errors, shown, below, above, widths = [], {}, 0, 0, []
    for request, seconds, answer in zip(requests, measured, predict(build, requests), strict=True):
        if "error" in answer:
            illegal = re.search(r"illegal plan .*\((\w+)\)", answer["error"])
            left_out[f"illegal: {illegal[1]}" if illegal else answer["error"].split(";")[0]] += 1
            continue
        error = answer["step_time_s"] / seconds - 1
        errors.append(error)
        below += seconds < answer["step_time_low_s"]
        above += seconds > answer["step_time_high_s"]
        widths.append(answer["step_time_high_s"] / answer["step_time_low_s"])
        shown[request["id"]] = round(100 * error, 1)
    absolute = [abs(error) for error in errors]
    result = {"rows": len(rows), "predicted": len(errors), "left_out": dict(left_out.most_common())}
    if errors:
        result |= {"mean_error_percent": round(100 * statistics.mean(errors), 1),
                   "mean_absolute_error_percent": round(100 * statistics.mean(absolute), 1),
                   "median_absolute_error_percent": round(100 * statistics.median(absolute), 1),
                   "largest_percent": round(100 * max(absolute), 1),
                   "within_interval_percent": round(100 * (1 - (below + above) / len(errors)), 1),
                   "below_interval_percent": round(100 * below / len(errors), 1),
                   "above_interval_percent": round(100 * above / len(errors), 1),
                   "median_high_over_low": round(statistics.median(widths), 2),
                   "ninth_decile_high_over_low": round(sorted(widths)[len(widths) * 9 // 10], 2)}
    if each:
        result["error_percent"] = shown
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("directory", nargs="?", default=os.environ.get("AUTOCFG_VALIDATION"))
    parser.add_argument("--host-op-s", type=float)
    args = parser.parse_args()
    build, directory = args.build, args.directory
    if not directory:
        sys.exit("published_accuracy: no DIRECTORY of published runs given; pass one or set AUTOCFG_VALIDATION")
    results = {}
    for name, to_request, each in (("published_runs", published_request, True), ("a100_single_node", megatron_request, False),
                                   ("a100_multi_node", megatron_request, False)):
        file = pathlib.Path(directory) / f"{name}.csv"
        if not file.exists():
            print(f"published_accuracy: {file} does not exist; its rows are skipped", file=sys.stderr)
            continue
        with file.open(newline="") as lines:
            results[name] = report(build, name, list(csv.DictReader(lines)), to_request, each, args.host_op_s)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
