"""Memory: the arena takes the bytes that were predicted; what does not fit is refused as such."""
import os

from gpu import programs
from gpu.context import TrainFailed, seconds_left
from gpu.outcome import Failure, OutOfTime

CASES = (("gpt2-check", "tp=1,pp=1,dp=1,mbs=2", "bf16"), ("gpt2-check", "tp=1,pp=1,dp=1,mbs=4,recompute=full", "fp32"),
         ("llama-check", "tp=1,pp=1,dp=1,mbs=2,recompute=full:1", "bf16"), ("llama-check", "tp=2,pp=2,dp=1,mbs=1,schedule=1f1b", "bf16"),
         ("gpt2-124m", "tp=1,pp=1,dp=1,mbs=4", "bf16"), ("gpt2-124m", "tp=1,pp=2,dp=1,mbs=2,schedule=interleaved,vpp=2", "bf16"))
GLOBAL_BATCH = 8
HANGS = "what held the memory was killed, but it does not end"
NOTHING_FITS = 1  # autocfg's exit code where the answer is no


def model_of(context, name):
    return context.model(name) if os.path.exists(context.model(name)) else name


def arena(context, figures, deadline):
    """The dry device counts without computing; the GPU's arena must hold as many bytes, all of them in use."""
    wrong = []
    for name, plan, precision in CASES:
        entry = figures.setdefault(f"{name} {precision} {plan}", {})
        options = dict(global_batch=GLOBAL_BATCH)
        entry["predicted_bytes"] = context.planned_bytes(model_of(context, name), plan, precision, deadline, **options)
        if context.gpu:
            continue
        result = context.train(model_of(context, name), plan, "cuda", deadline, precision, steps=2, AUTOCFG_GPU_TRANSPORT="host", **options)
        entry.update(planned_bytes=result["planned_memory_bytes"], used_bytes=result["peak_memory_bytes"],
                     device_overhead_bytes=result["device_overhead_bytes"])
        for what in ("planned_bytes", "used_bytes"):
            if entry[what] != entry["predicted_bytes"]:
                wrong.append(f"{name} {plan}: {what} {entry[what]}, predicted {entry['predicted_bytes']}")
        if entry["device_overhead_bytes"] <= 0:
            wrong.append(f"{name} {plan}: the device's overhead is {entry['device_overhead_bytes']} bytes")
    if wrong:
        raise Failure("; ".join(wrong))
    context.needs_gpu()


def refused(context, figures, what, deadline, model, plan, **options):
    """Trains and expects autocfg's typed answer, on one line."""
    try:
        context.train(model, plan, "cuda", deadline, "bf16", **options)
    except TrainFailed as failed:
        figures[what] = {"exit_code": failed.code, "words": failed.words}
        if failed.code != NOTHING_FITS or "does not fit" not in failed.words:
            raise Failure(f"{what}: expected exit code {NOTHING_FITS} and 'does not fit', got {failed.code}: {failed.words}") from None
        return
    raise Failure(f"{what}: it ran")


def does_not_fit(context, figures, deadline):
    """A plan larger than the GPU, and one that would fit if nothing else were on it."""
    context.needs_gpu()
    refused(context, figures, "larger than the GPU", deadline, "gpt3-175b", "tp=1,pp=1,dp=1,mbs=1")
    # 55% of the memory is held by another process; a plan that needs about as much is refused by the device, not by the planner.
    model, held = "gpt2-124m", int(context.memory_bytes * 0.55)
    batch = 1
    while True:
        if seconds_left(deadline) <= 1:
            raise OutOfTime(f"no time to find a batch of {model} that needs {held} bytes")
        needs = context.planned_bytes(model, f"mbs={batch}", "bf16", deadline, global_batch=batch)
        if needs > held:
            break
        batch = max(batch + 1, int(batch * held / needs * 1.05))
    figures["planned_bytes"], figures["held_bytes"] = needs, held
    if needs >= context.memory_bytes * 0.9:
        raise Failure(f"no batch of {model} needs about half of the GPU")
    holder = programs.start([context.program("autocfg_gpu_ops_bench"), "--hold", str(held)], context.environment, context.work)
    try:
        said = programs.first_line(holder, min(60, seconds_left(deadline)))
        if said != "held":
            raise Failure(f"{held} bytes could not be held to try this: {said}")
        refused(context, figures, "memory taken by others", deadline, model, f"mbs={batch}", global_batch=batch)
    finally:
        if not programs.stop(holder):
            figures["holder"] = HANGS
    # What was held is free again.
    context.train(context.model("gpt2-check"), "mbs=1", "cuda", deadline, "bf16")
