"""Two runs in reproducible mode give the same losses, gradient norms and weights, to the last
bit."""
import hashlib
import os

from gpu import programs
from gpu.outcome import Failure, OutOfTime

MODELS, STEPS, GLOBAL_BATCH = ("gpt2-check", "llama-check"), 3, 8
# What docs/gpu.md promises: the algorithms that cuBLASLt names first, attention by our own kernels.
# Ranks communicate over the host, because NCCL promises no order of its sums.
MODE = {"AUTOCFG_MATMUL": "heuristic", "AUTOCFG_ATTENTION": "own", "AUTOCFG_GPU_TRANSPORT": "host"}
PLANS = (("mbs=4", "bf16"), ("tp=2,mbs=4", "bf16"), ("dp=2,mbs=4", "fp32"))
RESULTS = ("losses", "grad_norms", "weights_sha256")


def cases():
    return [(model, plan, precision) for plan, precision in PLANS for model in MODELS]


def one_run(context, case, number, deadline):
    """Returns the run's RESULTS and its command. Each run has a process, a choice of algorithms and
    a file of its own."""
    model, plan, precision = case
    file = os.path.join(context.work, f"{model}-{plan}-{precision}-{number}.safetensors")
    result = context.train(
        context.model(model), plan, "cuda", deadline, precision, STEPS, GLOBAL_BATCH,
        extra=("--seed", str(context.seed), "--save", file), **MODE)
    with open(file, "rb") as saved:
        digest = hashlib.sha256(saved.read()).hexdigest()
    os.remove(file)
    return {"losses": result["losses"], "grad_norms": result["grad_norms"],
            "weights_sha256": digest, "command": result["command"]}


def difference(first, second):
    """Returns why the two runs are not equal, or "". Losses that are not numbers are never
    equal."""
    if None in (*first["losses"], *first["grad_norms"]):
        return "a loss or gradient norm is not finite"
    different = ", ".join(name for name in RESULTS if first[name] != second[name])
    return f"two runs differ in: {different}" if different else ""


def run(context, figures, deadline):
    context.needs_gpu()

    def twice(case):
        return [one_run(context, case, number, deadline) for number in (1, 2)]

    wrong = []
    for case, result in programs.in_parallel(context.jobs, cases(), twice):
        name = " ".join(case)
        if isinstance(result, OutOfTime):
            raise result
        if isinstance(result, Exception):
            wrong.append(f"{name}: {result}")
            continue
        differs = difference(*result)
        figures[name] = {"equal": not differs, "runs": result}
        if differs:
            wrong.append(f"{name}: {differs}")
    if wrong:
        raise Failure("; ".join(wrong))
