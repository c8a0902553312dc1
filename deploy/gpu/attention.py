"""Runs attention by each of the engine's implementations, forced. Tests that cuDNN computes it,
reports its kernels, and tests that the engine's choice is the faster one."""
import json
import os

from gpu import bench_ops
from gpu.outcome import Failure, OutOfTime

# Values of AUTOCFG_ATTENTION; the engine uses cuDNN if possible.
CHOSEN, OTHER = "cudnn", "own"
# The chosen implementation may be this much slower than the other one before the choice counts as
# wrong.
SLACK = 1.05
MOST_LINES = 60


def reasons(text):
    """Returns the errors in cuDNN's log (CUDNN_LOGLEVEL_DBG=2), each line once, without the lines
    that every process logs."""
    lines = (line.lstrip("WEwe!").strip() for line in text.splitlines())
    telling = [line for line in lines if ("Reason:" in line and "CUDNN_STATUS_SUCCESS" not in line)
               or line.startswith("engineConfig:") or "rror" in line]
    return list(dict.fromkeys(telling))[:MOST_LINES]


def cudnn_log(context, shape, deadline):
    """Repeats a failed run and returns the errors of cuDNN's log. If the repeated run does not end,
    the first entry says so."""
    log = os.path.join(context.work, f"cudnn-{shape}.log")
    late = []
    try:
        context.run("autocfg_gpu_ops_bench", [bench_ops.shapes_file(context), shape], deadline,
                    AUTOCFG_ATTENTION=CHOSEN, CUDNN_LOGLEVEL_DBG="2", CUDNN_LOGDEST_DBG=log)
    except OutOfTime as reason:
        late = [f"the run that was repeated for the log did not end: {reason}"]
    if not os.path.exists(log):
        return [*late, "cuDNN wrote no log"]
    with open(log, encoding="utf-8", errors="replace") as file:
        return late + reasons(file.read())


def measure(context, figures, shapes, wrong, deadline):
    """Measures each shape with each implementation; adds errors to the list `wrong`. Raises
    OutOfTime."""
    for shape in shapes:
        entry = figures.setdefault(shape, {})
        for forced in (CHOSEN, OTHER):
            # One shape per run, so that a failing shape does not hide the others.
            arguments = [bench_ops.shapes_file(context), shape]
            command = context.command("autocfg_gpu_ops_bench", arguments, AUTOCFG_ATTENTION=forced)
            done = context.run("autocfg_gpu_ops_bench", arguments, deadline,
                               AUTOCFG_ATTENTION=forced)
            if done.code == 0:
                result = json.loads(done.out)
                entry[forced] = {"times": result["ops"][shape], "choices": result["choices"],
                                 "command": command}
                continue
            entry[forced] = {"error": done.last_words(), "command": command}
            wrong.append(f"{shape}: {forced}: {done.last_words()}")
            if forced == CHOSEN:
                entry[forced]["log"] = cudnn_log(context, shape, deadline)
        if "times" not in entry[CHOSEN] or "times" not in entry[OTHER]:
            continue
        for part, timing in entry[CHOSEN]["times"].items():
            ratio = timing["median_s"] / entry[OTHER]["times"][part]["median_s"]
            entry.setdefault(f"{CHOSEN}_over_{OTHER}", {})[part] = ratio
            if ratio > SLACK:
                wrong.append(f"{shape}: {part.removesuffix('_s')}: {CHOSEN}, which the engine "
                             f"chooses, takes {ratio:.2f} times as long as {OTHER}")


def run(context, figures, deadline):
    context.needs_gpu()
    with open(bench_ops.shapes_file(context), encoding="utf-8") as file:
        shapes = [shape["name"] for shape in json.load(file) if shape["kind"] == "attention"]
    wrong = []
    try:
        measure(context, figures, shapes, wrong, deadline)
    except OutOfTime as late:
        if not wrong:
            raise
        wrong.append(f"no time for the rest: {late}")
    if wrong:
        raise Failure("; ".join(wrong))
