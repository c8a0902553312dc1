"""Losses and gradient norms of the same small models, from the same weights on the same data, on
the CPU and on the GPU. The norms show a wrong gradient in its own step; the losses, only as far as
the optimizer follows it."""
from gpu import programs
from gpu.context import worst_relative
from gpu.outcome import Failure, NotPossible, OutOfTime

MODELS = ("gpt2-check", "llama-check")
STEPS, GLOBAL_BATCH, PLAN = 20, 8, "tp=1,pp=1,dp=1,mbs=4"
WITHIN = {"fp32": 1e-4, "bf16": 2e-2}  # relative; bf16 is compared with the CPU's fp32
NORMS_WITHIN = {precision: 5 * within for precision, within in WITHIN.items()}


def run(context, figures, deadline):
    def train(task):
        model, device, precision = task
        return context.train(context.model(model), PLAN, device, deadline, precision, STEPS,
                             GLOBAL_BATCH, extra=("--seed", str(context.seed)))

    tasks = [(model, "cpu", "fp32") for model in MODELS]
    if context.gpu == "":
        tasks += [(model, "cuda", precision) for model in MODELS for precision in WITHIN]
    wrong = []
    results = {}
    for task, result in programs.in_parallel(context.jobs, tasks, train):
        model, device, precision = task
        entry = figures.setdefault(model, {}).setdefault(f"{device}_{precision}", {})
        if isinstance(result, OutOfTime):
            raise result
        if isinstance(result, Exception):
            wrong.append(f"{model} on {device} in {precision}: {result}")
            entry["error"] = str(result)
            continue
        results[task] = result
        entry.update(command=result["command"], losses=result["losses"],
                     grad_norms=result["grad_norms"], wall_s=result["wall_s"])
    for (model, device, precision), result in results.items():
        reference = results.get((model, "cpu", "fp32"))
        if device != "cuda" or reference is None:
            continue
        entry = figures[model][f"{device}_{precision}"]
        for what, field, within in (("losses", "losses", WITHIN[precision]),
                                    ("gradient norms", "grad_norms", NORMS_WITHIN[precision])):
            worst = worst_relative(result[field], reference[field])
            entry[f"worst_relative_difference_of_{field}"] = worst
            entry[f"allowed_of_{field}"] = within
            if not worst <= within:
                programs.note_suspect(result["run"])
                wrong.append(f"{model} in {precision}: {what} differ from the CPU's by "
                             f"{worst:.2e}; " f"at most {within:.0e} is allowed")
    for model in MODELS:
        losses = results.get((model, "cpu", "fp32"), {}).get("losses")
        if losses and None in (losses[0], losses[-1]):
            wrong.append(f"{model}: the CPU's loss is not finite")
        elif losses and not losses[-1] < losses[0]:
            wrong.append(f"{model}: the CPU's loss does not fall, so the comparison would prove "
                         "little")
    if wrong:
        raise Failure("; ".join(wrong))
    if context.gpu:
        raise NotPossible(f"no GPU: {context.gpu}; the CPU's part ran")
    context.needs_gpu()
