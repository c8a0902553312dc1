"""Weights saved by a GPU run initialize a run on the CPU, which must give the same losses."""
import os

from gpu import programs
from gpu.context import worst_relative
from gpu.outcome import Failure, OutOfTime

MODELS, PLAN, STEPS, GLOBAL_BATCH = ("gpt2-check", "llama-check"), "mbs=4", 3, 8
WITHIN = {"fp32": 1e-4, "bf16": 2e-2}


def there_and_back(context, model, precision, deadline):
    """Returns (losses of the run that saves, {device: losses of the run that starts from its
    weights}, the file's bytes, the commands)."""
    file = os.path.join(context.work, f"{model}-{precision}.safetensors")

    commands = []

    def train(device, kind, *extra):
        result = context.train(context.model(model), PLAN, device, deadline, kind, STEPS,
                               GLOBAL_BATCH, extra=("--seed", str(context.seed), *extra))
        commands.append(result["command"])
        return result["losses"]

    before = train("cuda", precision, "--save", file)
    after = {device: train(device, precision if device == "cuda" else "fp32", "--init", file)
             for device in ("cuda", "cpu")}
    size = os.path.getsize(file)
    os.remove(file)
    return before, after, size, commands


def run(context, figures, deadline):
    context.needs_gpu()
    wrong = []
    tasks = [(model, precision) for model in MODELS for precision in WITHIN]
    for (model, precision), result in programs.in_parallel(
            context.jobs, tasks, lambda task: there_and_back(context, *task, deadline)):
        if isinstance(result, OutOfTime):
            raise result
        if isinstance(result, Exception):
            wrong.append(f"{model} in {precision}: {result}")
            continue
        before, after, size, commands = result
        worst = worst_relative(after["cuda"], after["cpu"])
        figures[f"{model} {precision}"] = {"losses_before": before, "losses_on_gpu": after["cuda"],
                                           "losses_on_cpu": after[
                                               "cpu"], "worst_relative_difference_of_losses": worst,
                                           "allowed": WITHIN[precision], "file_bytes": size,
                                           "commands": commands}
        if not worst <= WITHIN[precision]:
            wrong.append(f"{model} in {precision}: losses after loading differ by {worst:.2e}")
        if before[0] is None or after["cpu"][0] is None:
            wrong.append(f"{model} in {precision}: a first loss is not finite: {before[0]} of "
                         f"training, {after['cpu'][0]} on the CPU from its weights")
        elif not after["cpu"][0] < before[0]:
            wrong.append(f"{model} in {precision}: the CPU starts at loss {after['cpu'][0]}, not "
                         f"below the {before[0]} that training began with")
    if wrong:
        raise Failure("; ".join(wrong))
