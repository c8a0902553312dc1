"""One pass of Nsight Compute (ncu) over a step of two layers of each benchmark model: how long each
kernel runs, how much memory it moves, how busy it keeps the multiprocessors."""
import csv
import glob
import io
import json
import os
import shutil

from gpu import programs
from gpu.context import seconds_left
from gpu.outcome import Failure, NotPossible, OutOfTime

PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
LAYERS, MOST_VOCAB, MICRO_BATCH, SEQ_LEN = 2, 32000, 4, 1024
MOST_KERNELS = 400  # that are profiled; a step has about 150
TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
BUSY = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
REGISTERS = "launch__registers_per_thread"
REFUSALS = ("ERR_NVGPUCTRPERM", "not supported", "Unable to", "InterprocessLockFailed")


def find():
    """Returns ncu's path, or None."""
    found = [path for place in PLACES for path in sorted(glob.glob(place), reverse=True)]
    return shutil.which("ncu") or next((path for path in found if os.access(path, os.X_OK)), None)


def number(text):
    return float(text.replace(",", ""))


def by_kernel(text):
    """Returns {kernel: {"launches", "time_s", "dram_bytes", "dram_bytes_per_s", "sm_busy_percent",
    "registers"}} from ncu's CSV, those that take longest first."""
    start = text.find('"ID",')
    if start < 0:
        return {}
    found = {}
    for row in csv.DictReader(io.StringIO(text[start:])):
        if not (row["ID"] or "").isdigit():  # the row of units, or what follows the table
            continue
        entry = found.setdefault(row["Kernel Name"],
                                 {"launches": 0, "time_s": 0.0, "dram_bytes": 0.0,
                                  "sm_busy_percent": 0.0, "registers": 0})
        entry["launches"] += 1
        entry["time_s"] += number(row[TIME]) / 1e9
        entry["dram_bytes"] += number(row[BYTES])
        entry["sm_busy_percent"] = max(entry["sm_busy_percent"], number(row[BUSY]))
        entry["registers"] = int(number(row[REGISTERS]))
    for entry in found.values():
        if entry["time_s"] > 0:
            entry["dram_bytes_per_s"] = entry["dram_bytes"] / entry["time_s"]
    return dict(sorted(found.items(), key=lambda item: -item[1]["time_s"]))


def two_layers(context, name):
    """Writes the model with LAYERS layers and a small vocabulary; returns its file."""
    with open(context.model(name), encoding="utf-8") as file:
        model = json.load(file)
    model.update(name=f"{name}-cut", layers=LAYERS, vocab=min(model["vocab"], MOST_VOCAB))
    path = os.path.join(context.work, f"{name}-cut.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(model, file)
    return path


def profile(context, program, name, entry, deadline):
    """Fills the entry; raises NotPossible if ncu may not read this device's counters."""
    log = os.path.join(context.work, f"{name}-ncu.csv")
    command = ["--log-file", log, "--target-processes", "all", "--csv", "--page", "raw",
               "--print-units", "base", "--clock-control", "none", "--launch-count",
               str(MOST_KERNELS), "--metrics",
               ",".join((TIME, BYTES, BUSY, REGISTERS)), context.program("autocfg"), "train",
               "--model", two_layers(context, name), "--plan", f"mbs={MICRO_BATCH}", "--device",
               "cuda", "--precision", "bf16", "--steps", "1", "--global-batch", str(MICRO_BATCH),
               "--seq-len", str(SEQ_LEN), "--json"]
    entry["command"] = context.shown(["AUTOCFG_MATMUL=heuristic", program, *command])
    # The first algorithm for every product, so that no kernel runs only to be timed.
    done = context.run(program, command, deadline, AUTOCFG_MATMUL="heuristic")
    text = f"{done.out}\n{done.err}"
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        programs.keep_output(f"{name}: what ncu wrote", text)
    entry["kernels"] = by_kernel(text)
    if entry["kernels"]:
        return
    lines = text.splitlines()
    refusal = next((line for line in lines if any(word in line for word in REFUSALS)), None)
    if refusal:
        raise NotPossible(f"ncu: {refusal.strip()}")
    raise Failure(f"{name}: ncu profiled no kernel: exit code {done.code}: {done.last_words()}")


def run(context, figures, deadline):
    context.needs_gpu()
    program = find()
    if program is None:
        raise NotPossible("ncu is not installed on this machine")
    with open(os.path.join(context.root, "gpu", "steps.json"), encoding="utf-8") as file:
        names = [case["model"] for case in json.load(file)]
    for index, name in enumerate(names):
        stop_at = deadline - seconds_left(deadline) * (len(names) - index - 1) / (
            len(names) - index)
        try:
            profile(context, program, name, figures.setdefault(name, {}), stop_at)
        except OutOfTime as late:
            if index + 1 == len(names):
                raise
            figures[name]["not_run"] = str(late)
    if any("not_run" in entry for entry in figures.values()):
        raise OutOfTime("; ".join(entry["not_run"] for entry in figures.values()
                                  if "not_run" in entry))
