"""Memory: the arena takes the predicted bytes, and plans that do not fit are refused as such."""
import os
import re

from gpu import programs
from gpu.context import TrainFailed, seconds_left
from gpu.outcome import Failure, NotPossible, OutOfTime

CASES = (("gpt2-check", "tp=1,pp=1,dp=1,mbs=2", "bf16"),
         ("gpt2-check", "tp=1,pp=1,dp=1,mbs=4,recompute=full", "fp32"),
         ("llama-check", "tp=1,pp=1,dp=1,mbs=2,recompute=full:1", "bf16"),
         ("llama-check", "tp=2,pp=2,dp=1,mbs=1,schedule=1f1b", "bf16"),
         ("gpt2-124m", "tp=1,pp=1,dp=1,mbs=4", "bf16"),
         ("gpt2-124m", "tp=1,pp=2,dp=1,mbs=2,schedule=interleaved,vpp=2", "bf16"))
GLOBAL_BATCH = 8
MIB = 1 << 20
PAGE_BYTES = 2 * MIB  # the driver allocates in pages of this size
HELD = 0.55
MODEL = "gpt2-124m"
TRIES = 5  # attempts to leave exactly the memory that the plan needs
HANGS = "what held the memory was killed, but it does not end"
NOTHING_FITS = 1  # autocfg's exit code for a negative answer


def model_of(context, name):
    return context.model(name) if os.path.exists(context.model(name)) else name


def arena(context, figures, deadline):
    """Compares the dry device's byte count with the GPU's arena, which must have the same size and
    be fully used."""
    wrong = []
    for name, plan, precision in CASES:
        entry = figures.setdefault(f"{name} {precision} {plan}", {})
        options = dict(global_batch=GLOBAL_BATCH)
        entry["predicted_bytes"] = context.planned_bytes(
            model_of(context, name), plan, precision, deadline, **options)
        if context.gpu:
            continue
        result = context.train(model_of(context, name), plan, "cuda", deadline, precision, steps=2,
                               AUTOCFG_GPU_TRANSPORT="host", **options)
        entry.update(command=result["command"], planned_bytes=result["planned_memory_bytes"],
                     used_bytes=result["peak_memory_bytes"],
                     device_overhead_bytes=result["device_overhead_bytes"])
        for what in ("planned_bytes", "used_bytes"):
            if entry[what] != entry["predicted_bytes"]:
                wrong.append(f"{name} {plan}: {what} {entry[what]}, predicted "
                             f"{entry['predicted_bytes']}")
        if entry["device_overhead_bytes"] <= 0:
            wrong.append(f"{name} {plan}: the device's overhead is "
                         f"{entry['device_overhead_bytes']} bytes")
    if wrong:
        raise Failure("; ".join(wrong))
    context.needs_gpu()


def refused(context, entry, what, deadline, model, plan, **options):
    """Trains and expects autocfg's typed refusal on one line. Returns its text, or None if it
    ran."""
    try:
        entry["command"] = context.train(model, plan, "cuda", deadline, "bf16",
                                         **options)["command"]
    except TrainFailed as failed:
        entry.update(command=failed.command, exit_code=failed.code, words=failed.words)
        if failed.code != NOTHING_FITS or "does not fit" not in failed.words:
            raise Failure(f"{what}: expected exit code {NOTHING_FITS} and 'does not fit', got "
                          f"{failed.code}: {failed.words}") from None
        return failed.words
    return None


def by_planner(words):
    """Returns (the arena's bytes, the device's bytes, the excess) if a rank refused before it
    allocated memory, else None."""
    found = re.search(r"the plan needs \d+ bytes \(arena (\d+), device (\d+)\), (\d+) more than",
                      words)
    return tuple(int(text) for text in found.groups()) if found else None


def by_device(words):
    """Returns whether the driver, or a library, refused an allocation."""
    return re.search(r"the GPU has no \d+ bytes left|out of memory|ALLOC_FAILED", words) is not None


def while_held(context, figures, held, deadline, work):
    """Calls work() while another process holds `held` bytes of the GPU."""
    holder = programs.start([context.program("autocfg_gpu_ops_bench"), "--hold", str(held)],
                            context.environment, context.work)
    try:
        said = programs.first_line(holder, min(60, seconds_left(deadline)))
        if said != "held":
            raise Failure(f"could not hold {held} bytes for this test: {said}")
        return work()
    finally:
        if not programs.stop(holder):
            figures["holder"] = HANGS


def batch_that_needs(context, least, deadline):
    """Returns (a batch of MODEL that needs a little more than `least` bytes; its bytes)."""
    batch = 1
    while True:
        if seconds_left(deadline) <= 1:
            raise OutOfTime(f"no time to find a batch of {MODEL} that needs {least} bytes")
        needs = context.planned_bytes(MODEL, f"mbs={batch}", "bf16", deadline, global_batch=batch)
        if needs > least:
            return batch, needs
        batch = max(batch + 1, int(batch * least / needs * 1.05))


def met_by_device(context, figures, held, train, deadline):
    """Finds a run that the planner accepts but that finds no memory. So much is held that the arena
    just fits beside the memory in use; but the driver allocates whole pages, and code loaded at
    first use needs memory too. `train(entry)`: as refused(). Raises Failure or NotPossible."""
    tries = figures["tries"] = []
    for _ in range(TRIES):
        entry = {"held_bytes": held}
        tries.append(entry)
        words = while_held(context, figures, held, deadline, lambda entry=entry: train(entry))
        if words is None:
            break
        refusal = by_planner(words)
        if refusal is None:
            if not by_device(words):
                raise Failure("with an arena that just fits: expected a refusal by the planner or "
                              f"by the device, got: {words}")
            figures.update(entry)
            return
        # Reduces the held memory by the excess, in whole pages.
        held -= -(-refusal[2] // PAGE_BYTES) * PAGE_BYTES
    how = f"the planner refused {TRIES} times: {words}"
    if words is None:
        how = "a run whose arena just fitted ran"
    raise NotPossible(f"the device itself never refused: {how}")


def does_not_fit(context, figures, deadline):
    """Tests three plans: one larger than the GPU; one that would fit if nothing else were on the
    GPU, which its rank detects before it allocates; one whose memory the driver refuses."""
    context.needs_gpu()
    larger = "larger than the GPU"
    if refused(context, figures.setdefault(larger, {}), larger, deadline, "gpt3-175b",
               "tp=1,pp=1,dp=1,mbs=1") is None:
        raise Failure(f"{larger}: it ran")
    held = int(context.memory_bytes * HELD) // PAGE_BYTES * PAGE_BYTES
    batch, needs = batch_that_needs(context, held, deadline)
    if needs >= context.memory_bytes * 0.9:
        raise Failure(f"no batch of {MODEL} needs about half of the GPU")

    def train(what):
        return lambda entry: refused(context, entry, what, deadline, MODEL, f"mbs={batch}",
                                     global_batch=batch)

    # The held memory is in use before the rank's arena exists; the planner counts it as the
    # device's own.
    taken = "memory taken by others, seen by the planner"
    entry = figures.setdefault(taken, {"planned_bytes": needs, "held_bytes": held})
    words = while_held(context, figures, held, deadline, lambda: train(taken)(entry))
    if words is None:
        raise Failure(f"{taken}: it ran")
    refusal = by_planner(words)
    if refusal is None:
        raise Failure(f"{taken}: expected a refusal before the rank allocates memory, got: {words}")
    entry.update(zip(("arena_bytes", "device_bytes", "over_bytes"), refusal))
    if refusal[0] != needs or refusal[1] < held:
        raise Failure(f"{taken}: an arena of {refusal[0]} bytes and {refusal[1]} of the device, "
                      f"where {needs} are planned and {held} held")
    device = "refused by the device itself"
    met_by_device(context, figures.setdefault(device, {}),
                  held - -(-refusal[2] // PAGE_BYTES) * PAGE_BYTES, train(device), deadline)
    # The held memory is free again.
    figures["free again"] = {
        "command": context.train(context.model("gpt2-check"), "mbs=1", "cuda", deadline,
                                 "bf16")["command"]}
