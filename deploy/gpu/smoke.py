"""A first look of a minute: does each part of the engine do anything right at all? One test of
every suite, one step of each small model, one product. What fails here explains most of what fails
later."""
import math

from gpu import bench_ops, ops, programs
from gpu.context import TrainFailed
from gpu.outcome import Failure, OutOfTime

MODELS = ("gpt2-check", "llama-check")
STEPS, GLOBAL_BATCH, PLAN = 2, 4, "mbs=4"


def first_tests(context, deadline):
    """Returns the first test of every suite of gpu_test."""
    listed = context.run("gpu_test", ["--gtest_list_tests"], deadline)
    return [tests[0] for tests in ops.listed_suites(listed.out).values()]


def run_tests(context, figures, deadline):
    """Raises Failure that names the tests that do not pass."""
    names = first_tests(context, deadline)
    arguments = [f"--gtest_filter={':'.join(names)}"]
    figures["command"] = context.command("gpu_test", arguments)
    try:
        text = context.run("gpu_test", arguments, deadline).out
    except OutOfTime as late:
        text = late.out
    found = ops.started_tests(text)
    figures["tests"] = {name: found.get(name, "not run") for name in names}
    bad = [name for name, outcome in figures["tests"].items() if outcome != "passed"]
    if bad or not names:
        raise Failure(f"{len(bad)} of {len(names)} tests did not pass: {', '.join(bad[:8])}")


def run_model(context, figures, model, deadline):
    result = context.train(context.model(model), PLAN, "cuda", deadline, "bf16", STEPS,
                           GLOBAL_BATCH, extra=("--seed", str(context.seed)))
    figures.update(command=result["command"], losses=result["losses"],
                   step_time_s=result["step_time_s"], wall_s=result["wall_s"])
    if not all(loss is not None and math.isfinite(loss) for loss in result["losses"]):
        raise Failure("a loss is not finite")


def run_product(context, figures, deadline):
    arguments = [bench_ops.shapes_file(context), ",".join(bench_ops.RATES)]
    figures["command"] = context.command("autocfg_gpu_ops_bench", arguments)
    answer = bench_ops.answer_of(context, arguments, deadline)
    figures.update(bench_ops.rates_of(context, answer))


def run(context, figures, deadline):
    context.needs_gpu()
    parts = {"tests": lambda entry: run_tests(context, entry, deadline),
             "products": lambda entry: run_product(context, entry, deadline)}
    for model in MODELS:
        parts[model] = lambda entry, model=model: run_model(context, entry, model, deadline)

    def work(name):
        parts[name](figures.setdefault(name, {}))

    wrong = []
    for name, error in programs.in_parallel(context.jobs, list(parts), work):
        if isinstance(error, (Failure, TrainFailed, OutOfTime)):
            wrong.append(f"{name}: {error}")
        elif error is not None:
            raise error
    if wrong:
        raise Failure("; ".join(wrong))

