"""Whole training steps of two models, ours and PyTorch's alternating, on random tokens, compared
with the step targets."""
import json
import os
import random
import statistics
import struct

from gpu import bench_ops, clocks, first_loss, rates
from gpu.context import TrainFailed, seconds_left
from gpu.outcome import Failure, NotPossible, OutOfTime

STEPS, WARM_UP = 20, 4
TURNS = ("ours", "torch", "ours")  # ours before and after, to detect drift
# Allowed fractions of the GPU's memory, as planned. The rest is for what PyTorch allocates beside
# its tensors. A step of few tokens mostly moves parameters, so it may use more memory.
COMFORTABLE, FOR_FEW_TOKENS, AT_MOST = 0.6, 0.8, 0.85
FEW_TOKENS = 8192
OVER_TORCH, OVER_TORCH_AIM = 1.0, 0.9
UTILISATION, UTILISATION_AIM = 0.5, 0.65
PRECISION = {"ours": "bf16, with fp32 master weights, moments and gradients",
             "torch": "autocast to bf16 over fp32 weights, residual stream in bf16, gradients and "
             "fused AdamW in fp32"}
DOES_NOT_FIT = 3  # exit code of bench/gpu_step_torch.py


class TooLarge(Exception):
    """The micro batch does not fit on one side; the text says which, with its message."""


def cases(context):
    """Returns [{"model", "seq_len", "compile": what torch.compile compiles at once}]. Compiling 48
    layers as a whole takes minutes."""
    with open(os.path.join(context.root, "gpu", "steps.json"), encoding="utf-8") as file:
        found = json.load(file)
    return [dict(case, compile=context.torch_compile or case["compile"]) for case in found]


def choose_micro_batch(context, model, seq_len, deadline):
    """Returns (micro batch, its planned bytes), or None if nothing fits. Takes the largest power of
    two whose planned memory is at most COMFORTABLE of the GPU's. FOR_FEW_TOKENS is allowed if the
    next smaller batch has fewer than FEW_TOKENS tokens per step. Micro batch 1 may use AT_MOST."""
    best, batch = None, 1
    while True:
        needs = context.planned_bytes(model, f"mbs={batch}", "bf16", deadline, global_batch=batch,
                                      seq_len=seq_len)
        allowed = AT_MOST
        if best is not None:
            allowed = FOR_FEW_TOKENS if best[0] * seq_len < FEW_TOKENS else COMFORTABLE
        if needs > context.memory_bytes * allowed:
            return best
        best = (batch, needs)
        if batch >= 256:
            return best
        batch *= 2


def write_tokens(path, vocab, count, seed):
    """Writes random token ids in the format of train --data."""
    generator = random.Random(seed)
    wide = vocab > 65536
    path += ".u32" if wide else ".u16"
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{count}{'I' if wide else 'H'}",
                               *(generator.randrange(vocab) for _ in range(count))))
    return path


def steady(times):
    return times[WARM_UP:] if len(times) > WARM_UP + 2 else times[1:]


def our_steps(context, case, batch, tokens, deadline):
    try:
        return context.train(context.model(case["model"]), f"mbs={batch}", "cuda", deadline, "bf16",
                             STEPS, batch, case["seq_len"], extra=("--data", tokens))
    except TrainFailed as failed:
        # Refused before it ran, or by the device in the middle of a step.
        if "does not fit" in failed.words:
            raise TooLarge(f"ours: {failed}") from None
        raise


def torch_steps(context, case, batch, deadline):
    """Returns (result or None, why it is incomplete; also for a program that failed after its
    result)."""
    arguments = ["--model", context.model(case["model"]), "--seq-len", str(case["seq_len"]),
                 "--micro-batch", str(batch), "--steps", str(STEPS), "--compile", case["compile"]]
    result, why, code = bench_ops.torch(context, "gpu_step_torch.py", arguments, deadline)
    if code == DOES_NOT_FIT:
        raise TooLarge(f"PyTorch: {why}")
    if result:
        result["command"] = bench_ops.torch_command(context, "gpu_step_torch.py", arguments)
    return result or None, why


def take_turns(context, case, batch, tokens, entry, deadline):
    """Returns {"ours": steady step times, "torch": the same}. Records in `entry` what was run, what
    was not, and why."""
    times = {"ours": [], "torch": []}
    turns = entry["turns"] = []
    for who in TURNS:
        took = next((turn["wall_s"] for turn in turns if turn["who"] == who), 0)
        if took and seconds_left(deadline) < 1.2 * took:
            turns.append({"who": who, "not_run": "no time for another turn", "wall_s": 0})
            continue
        begun, during = seconds_left(deadline), {}
        turn = {"who": who, "clocks": during}
        try:
            with clocks.sampled(context, during):
                if who == "ours":
                    result = our_steps(context, case, batch, tokens, deadline)
                    entry.update(planned_bytes=result["planned_memory_bytes"],
                                 used_bytes=result["peak_memory_bytes"],
                                 device_overhead_bytes=result["device_overhead_bytes"])
                else:
                    result, why = torch_steps(context, case, batch, deadline)
                    if result is None:
                        turns.append(dict(turn, not_run=why, wall_s=begun - seconds_left(deadline)))
                        continue
                    turn.update({"why": why} if why else {})
                    entry.update(torch=result["torch"], torch_compiled=result["compiled"],
                                 torch_compile_error=result["compile_error"],
                                 torch_compile_s=result["compile_s"],
                                 torch_peak_bytes=result["peak_memory_bytes"])
        except OutOfTime as late:
            if not times["ours"]:
                raise
            turns.append(dict(turn, not_run=str(late), wall_s=begun - seconds_left(deadline)))
            continue
        times[who] += steady(result["step_time_s"])
        turns.append(dict(turn, command=result["command"], step_time_s=result["step_time_s"],
                          median_s=statistics.median(steady(result["step_time_s"])),
                          losses=result.get("losses", result.get("loss")),
                          wall_s=begun - seconds_left(deadline)))
    return times


def measure(context, case, entry, deadline):
    """Calls take_turns with the largest comfortable micro batch that fits on both sides. Raises
    Failure if there is none."""
    chosen = choose_micro_batch(context, context.model(case["model"]), case["seq_len"], deadline)
    if chosen is None:
        raise Failure("micro batch 1 does not fit comfortably")
    batch = chosen[0]
    with open(context.model(case["model"]), encoding="utf-8") as file:
        description = json.load(file)
    tokens = write_tokens(os.path.join(context.work, f"tokens-{case['model']}"),
                          description["vocab"], 1 << 20, context.seed)
    try:
        while True:
            entry.update(seq_len=case["seq_len"], micro_batch=batch, precision=PRECISION,
                         steps=STEPS, warm_up_steps=WARM_UP)
            try:
                return description, batch, take_turns(context, case, batch, tokens, entry, deadline)
            except TooLarge as why:
                entry.setdefault("too_large", {})[str(batch)] = str(why)
                if batch == 1:
                    raise Failure(f"micro batch 1 does not fit: {why}") from None
                batch //= 2
    finally:
        os.remove(tokens)


def evaluate(name, entry, description, tokens_per_step, times, rate, figures):
    """Fills the entry. Returns (targets missed, why it was not compared or "")."""
    full, causal = rates.model_flops(description, tokens_per_step, entry["seq_len"])
    median = statistics.median(times["ours"])
    entry.update(ours_median_s=median, ours_min_s=min(times["ours"]),
                 tokens_per_s=tokens_per_step / median, model_flops=full, model_flops_causal=causal)
    uncompared = ""
    if times["torch"]:
        theirs = statistics.median(times["torch"])
        entry.update(torch_median_s=theirs, torch_min_s=min(times["torch"]))
        if entry["torch_compile_error"]:
            # Not the comparison that the target specifies.
            entry["ours_over_torch_uncompiled"] = median / theirs
            why = entry["torch_compile_error"]
            uncompared = f"{name}: torch.compile failed, PyTorch ran without it: {why}"
        else:
            entry["ours_over_torch"] = median / theirs
    else:
        why = next((turn["not_run"] for turn in entry["turns"] if turn["who"] == "torch"),
                   "it did not run")
        uncompared = f"{name}: not compared with PyTorch: {why}"
    utilise(entry, rate)
    return judge(name, entry, figures), uncompared


def utilise(entry, rate):
    """Adds the fraction of `rate` FLOPs per second that a case reached."""
    entry.update(utilisation=entry["model_flops"] / entry["ours_median_s"] / rate,
                 utilisation_causal=entry["model_flops_causal"] / entry["ours_median_s"] / rate)
    if "torch_median_s" in entry:
        entry["torch_utilisation"] = entry["model_flops"] / entry["torch_median_s"] / rate


def judge(name, entry, figures):
    """Adds a case's targets to the figures: [{"name", "measured", "target", "aim", "unit",
    "passed"}]. Returns the names of the missed ones."""
    found = []
    if "ours_over_torch" in entry:
        found.append({"name": f"{name}: step time over PyTorch's",
                      "measured": entry["ours_over_torch"], "target": OVER_TORCH,
                      "aim": OVER_TORCH_AIM, "unit": "ratio, at most",
                      "passed": entry["ours_over_torch"] <= OVER_TORCH})
    found.append({"name": f"{name}: model FLOPs over the measured matrix-product rate",
                  "measured": entry["utilisation"], "target": UTILISATION, "aim": UTILISATION_AIM,
                  "unit": "ratio, at least", "passed": entry["utilisation"] >= UTILISATION})
    figures.setdefault("targets", []).extend(found)
    return [target["name"] for target in found if not target["passed"]]


def run(context, figures, deadline):
    todo = cases(context)
    if context.gpu:
        for case in todo:
            figures[case["model"]] = {
                "predicted_bytes_of_micro_batch_1": context.planned_bytes(
                    context.model(case["model"]), "mbs=1", "bf16", deadline, global_batch=1,
                    seq_len=case["seq_len"])}
    context.needs_gpu()
    rate = bench_ops.measure_rates(context, deadline)["matmul_flops_per_s"]
    figures["rate"] = {"flops_per_s": rate, "of": context.rate_of}
    figures["rate_command"] = context.command(
        "autocfg_gpu_ops_bench", [bench_ops.shapes_file(context), ",".join(bench_ops.RATES)])
    missed, uncompared, late, wrong = [], [], [], []
    for index, case in enumerate(todo):
        name = case["model"]
        entry = figures.setdefault(name, {})
        stop_at = deadline - seconds_left(deadline) * (len(todo) - index - 1) / (len(todo) - index)
        try:
            description, batch, times = measure(context, case, entry, stop_at)
        except (TrainFailed, Failure) as failed:
            entry["failed"] = str(failed)
            missed.append(f"{name}: {failed}")
            continue
        except OutOfTime as reason:
            entry["failed"] = f"no time: {reason}"
            late.append(f"{name}: {reason}")
            continue
        first = next((turn["losses"][0] for turn in entry["turns"] if turn["who"] == "ours"
                      and turn.get("losses")), None)
        entry["first_loss"] = {"measured": first, "expected": first_loss.expected(description)}
        if why := first_loss.why_wrong(description, first):
            wrong.append(f"{name}: {why}")
        of_case, why = evaluate(name, entry, description, batch * case["seq_len"], times, rate,
                                figures)
        missed += of_case
        uncompared += [why] if why else []
    if missed or wrong:
        raise Failure("; ".join([*wrong, *([f"missed: {'; '.join(missed)}"] if missed else []),
                                 *late, *uncompared]))
    if late:
        raise OutOfTime("; ".join([*late, *uncompared]))
    if uncompared:
        raise NotPossible("; ".join(uncompared))
