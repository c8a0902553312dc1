"""Ranks of GPT-3 175B at tp=8,pp=16, each alone on the GPU without its peers: time and memory of
one rank of the real plan."""
import statistics

from gpu.outcome import Failure, OutOfTime

MODEL, PLAN, MICRO_BATCHES, STEPS = "gpt3-175b", "tp=8,pp=16,dp=1,mbs=1,schedule=1f1b", 16, 6
SLICES = ("0,8", "0,0", "0,15")


def run(context, figures, deadline):
    figures.update(model=MODEL, plan=PLAN, micro_batches=MICRO_BATCHES, seq_len=2048,
                   precision="bf16")
    wrong = []
    for slice_ in SLICES:
        entry = figures.setdefault(slice_, {})
        options = dict(global_batch=MICRO_BATCHES, extra=("--slice", slice_))
        try:
            entry["predicted_bytes"] = context.planned_bytes(
                MODEL, PLAN, "bf16", deadline, **options)
            if context.gpu:
                continue
            result = context.train(MODEL, PLAN, "cuda", deadline, "bf16", STEPS, **options)
        except OutOfTime as late:
            if slice_ == SLICES[0]:
                raise
            entry["not_run"] = str(late)
            continue
        times = result["step_time_s"][1:]
        entry.update(step_time_s=result["step_time_s"], median_step_s=statistics.median(times),
                     per_micro_batch_s=statistics.median(times) / MICRO_BATCHES,
                     planned_bytes=result["planned_memory_bytes"],
                     used_bytes=result["peak_memory_bytes"],
                     device_overhead_bytes=result["device_overhead_bytes"], wall_s=result["wall_s"],
                     command=result["command"])
        if result["planned_memory_bytes"] != entry["predicted_bytes"] or result[
                "peak_memory_bytes"] != entry["predicted_bytes"]:
            wrong.append(f"slice {slice_}: {entry['planned_bytes']} bytes planned, "
                         f"{entry['used_bytes']} used, {entry['predicted_bytes']} predicted")
    if wrong:
        raise Failure("; ".join(wrong))
    context.needs_gpu()
