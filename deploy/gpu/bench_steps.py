"""Whole training steps of two models, ours and PyTorch's in turns, on random tokens: the issue's targets."""
import json
import os
import random
import statistics
import struct

from gpu import bench_ops, rates
from gpu.context import TrainFailed, seconds_left
from gpu.report import Failure, NotPossible, OutOfTime

# Model, sequence length, what torch.compile takes at once: 48 layers as a whole take it minutes.
CASES = (("gpt2-1.5b", 1024, "blocks"), ("llama3-8b-8-layers", 4096, "model"))
STEPS, WARM_UP = 20, 4
COMFORTABLE, AT_MOST = 0.6, 0.85  # of the GPU's memory, as planned: room for what PyTorch keeps beside its tensors
OVER_TORCH, OVER_TORCH_AIM = 1.0, 0.9
UTILISATION, UTILISATION_AIM = 0.5, 0.65


def choose_micro_batch(context, model, seq_len, deadline):
    """(the largest power of two whose planned memory is comfortable, its bytes); failing that 1 where it fits at all. None: nothing fits."""
    best, batch = None, 1
    while True:
        needs = context.planned_bytes(model, f"mbs={batch}", "bf16", deadline, global_batch=batch, seq_len=seq_len)
        if needs > context.memory_bytes * (COMFORTABLE if best or batch > 1 else AT_MOST):
            return best
        best = (batch, needs)
        if batch >= 256:
            return best
        batch *= 2


def write_tokens(path, vocab, count, seed):
    """Random token ids as train --data reads them."""
    generator = random.Random(seed)
    wide = vocab > 65536
    path += ".u32" if wide else ".u16"
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{count}{'I' if wide else 'H'}", *(generator.randrange(vocab) for _ in range(count))))
    return path


def steady(times):
    return times[WARM_UP:] if len(times) > WARM_UP + 2 else times[1:]


def our_steps(context, model, seq_len, batch, tokens, deadline):
    return context.train(model, f"mbs={batch}", "cuda", deadline, "bf16", STEPS, batch, seq_len, extra=("--data", tokens))


def judge(name, entry, figures):
    """The targets' part of a case: [{"name", "measured", "target", "aim", "unit", "passed"}]."""
    found = []
    if "ours_over_torch" in entry:
        found.append({"name": f"{name}: step time over PyTorch's", "measured": entry["ours_over_torch"], "target": OVER_TORCH, "aim": OVER_TORCH_AIM,
                      "unit": "ratio, at most", "passed": entry["ours_over_torch"] <= OVER_TORCH})
    found.append({"name": f"{name}: model FLOPs over the measured matrix-product rate", "measured": entry["utilisation"], "target": UTILISATION,
                  "aim": UTILISATION_AIM, "unit": "ratio, at least", "passed": entry["utilisation"] >= UTILISATION})
    figures.setdefault("targets", []).extend(found)
    return [target["name"] for target in found if not target["passed"]]


def run(context, figures, deadline):
    if context.gpu:
        for name, seq_len, _ in CASES:
            figures[name] = {"predicted_bytes_of_micro_batch_1": context.planned_bytes(context.model(name), "mbs=1", "bf16", deadline, global_batch=1,
                                                                                       seq_len=seq_len)}
    context.needs_gpu()
    rate = bench_ops.measure_rates(context, deadline)["matmul_flops_per_s"]
    figures["matmul_flops_per_s"] = rate
    missed, uncompared = [], []
    for index, (name, seq_len, compiled) in enumerate(CASES):
        entry = figures.setdefault(name, {})
        share = seconds_left(deadline) / (len(CASES) - index)
        stop_at = deadline - seconds_left(deadline) + share
        model = context.model(name)
        with open(model, encoding="utf-8") as file:
            description = json.load(file)
        chosen = choose_micro_batch(context, model, seq_len, stop_at)
        if chosen is None:
            uncompared.append(f"{name}: micro batch 1 does not fit comfortably")
            continue
        batch, needs = chosen
        entry.update(seq_len=seq_len, micro_batch=batch, planned_bytes=needs, precision="bf16, with fp32 master weights, moments and gradients",
                     torch_precision="autocast to bf16 over fp32 weights, residual stream in bf16, fused AdamW in fp32", steps=STEPS, warm_up_steps=WARM_UP, turns=[])
        tokens = write_tokens(os.path.join(context.work, "tokens"), description["vocab"], 1 << 20, context.seed)
        times = {"ours": [], "torch": []}
        for who in ("ours", "torch", "ours", "torch"):
            took = [turn["wall_s"] for turn in entry["turns"] if turn["who"] == who]
            if took and seconds_left(stop_at) < 1.2 * took[0]:
                entry["turns"].append({"who": who, "not_run": "no time for a second turn", "wall_s": 0})
                continue
            if who == "torch" and "torch" in entry and not times["torch"]:
                continue  # it said why not
            begun = seconds_left(stop_at)
            try:
                if who == "ours":
                    result = our_steps(context, model, seq_len, batch, tokens, stop_at)
                    entry.update(used_bytes=result["peak_memory_bytes"], device_overhead_bytes=result["device_overhead_bytes"])
                else:
                    result, why = bench_ops.torch(context, "gpu_step_torch.py", ["--model", model, "--seq-len", str(seq_len), "--micro-batch", str(batch),
                                                                                 "--steps", str(STEPS), "--compile", compiled], stop_at)
                    if result is None:
                        entry["torch"] = f"not compared: {why}"
                        continue
                    entry.update(torch=result["torch"], torch_compiled=result["compiled"], torch_peak_bytes=result["peak_memory_bytes"])
            except TrainFailed as failed:
                entry["failed"] = str(failed)
                missed.append(f"{name} at micro batch {batch}: {failed}")
                break
            except OutOfTime as late:
                if not times["ours"]:
                    raise
                entry.setdefault("torch" if who == "torch" else "second_turn", f"not compared: {late}")
                continue
            times[who] += steady(result["step_time_s"])
            entry["turns"].append({"who": who, "step_time_s": result["step_time_s"], "wall_s": begun - seconds_left(stop_at)})
        os.remove(tokens)
        if not times["ours"]:
            continue
        full, causal = rates.model_flops(description, batch * seq_len, seq_len)
        median = statistics.median(times["ours"])
        entry.update(ours_median_s=median, ours_min_s=min(times["ours"]), tokens_per_s=batch * seq_len / median, model_flops=full,
                     model_flops_causal=causal, utilisation=full / median / rate, utilisation_causal=causal / median / rate)
        if times["torch"]:
            theirs = statistics.median(times["torch"])
            entry.update(torch_median_s=theirs, torch_min_s=min(times["torch"]), ours_over_torch=median / theirs, torch_utilisation=full / theirs / rate)
        else:
            uncompared.append(f"{name}: {entry.get('torch', 'PyTorch did not run')}")
        missed += judge(name, entry, figures)
    if missed:
        raise Failure(f"missed: {'; '.join(missed)}")
    if uncompared:
        raise NotPossible("; ".join(uncompared))
