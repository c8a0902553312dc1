#!/usr/bin/env python3
"""Times single ops of PyTorch on one GPU, at the shapes of a file (deploy/gpu/op_shapes.json), for
comparison with autocfg_gpu_ops_bench.

Each time is the median of many runs, measured by events on the stream after warm-up, on random
data: bf16, as the engine computes; AdamW over fp32. If an op has both an eager and a compiled form,
the faster one counts.

usage: gpu_ops_torch.py SHAPES.json Prints a JSON line after every op, with all results so far:
{"torch", "ops": {name: {part: {"median_s", "min_s", "runs", "by"}}}, "errors": {name: why}}. Exit
code 1: some ops failed.
"""
import json
import statistics
import sys
import time
import traceback

import torch
import torch.nn.functional as F

RUNS, WARM_UP, WARM_UP_S = 30, 5, 0.2
# While the GPU waits for so long, Python issues all runs: its own time is not part of the op's, and
# the runs follow each other directly, as autocfg_gpu_ops_bench's do. A GPU that pauses between runs
# reaches higher clocks.
AHEAD_CYCLES = 20_000_000


def time_of(work):
    end_of_warm_up, runs = time.perf_counter() + WARM_UP_S, 0
    while runs < WARM_UP or time.perf_counter() < end_of_warm_up:  # also lets the clocks rise
        work()
        torch.cuda.synchronize()
        runs += 1
    spans = []
    torch.cuda._sleep(AHEAD_CYCLES)
    for _ in range(RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        spans.append((start, end))
    torch.cuda.synchronize()
    seconds = [start.elapsed_time(end) / 1e3 for start, end in spans]
    return {"median_s": statistics.median(seconds), "min_s": min(seconds), "runs": RUNS}


def random(*shape, grad=False):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=grad)


def matmul(shape):
    a, b = random(shape["m"], shape["k"]), random(shape["k"], shape["n"])
    out = torch.empty(shape["m"], shape["n"], device="cuda", dtype=torch.bfloat16)
    return {"product_s": time_of(lambda: torch.mm(a, b, out=out))}


def copy(shape):
    source = torch.randint(0, 255, (shape["bytes"],), device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return {"copy_s": time_of(lambda: target.copy_(source))}


def compiled(work):
    """Compiles `work` for these shapes only.

    Without the reset, a function that has seen other shapes would be compiled for dynamic shapes.
    The backward can run repeatedly over the same graph, which timing requires.
    """
    import torch._functorch.config
    if hasattr(torch._functorch.config, "donated_buffer"):
        torch._functorch.config.donated_buffer = False
    torch._dynamo.reset()
    return torch.compile(work, dynamic=False, fullgraph=True)


def there_and_back(forward, inputs):
    """Times the forward, and the backward of one retained graph."""
    with torch.no_grad():
        there = time_of(forward)
    out = forward()
    gradient = torch.randn_like(out)
    return {
        "forward_s": there, "backward_s": time_of(
            lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True))}


def faster(eager, of_compiled):
    """Returns the faster of eager and compiled, part by part. If compiling fails, returns eager
    with the error."""
    try:
        other = of_compiled()
    except Exception as error:  # noqa: BLE001: any compiler error
        traceback.print_exc()
        why = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        return {part: dict(timing, by="eager", compile_error=why) for part, timing in eager.items()}
    return {part: min(dict(timing, by="eager"), dict(other[part], by="torch.compile"),
                      key=lambda entry: entry["median_s"]) for part, timing in eager.items()}


def attention(shape):
    batch, seq, dim = shape["batch"], shape["seq"], shape["head_dim"]
    q = random(batch, shape["heads"], seq, dim, grad=True)
    k, v = (random(batch, shape["kv_heads"], seq, dim, grad=True) for _ in range(2))
    gqa = shape["heads"] != shape["kv_heads"]
    return there_and_back(
        lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa), (q, k, v))


def layer_norm(shape):
    x = random(shape["tokens"], shape["width"], grad=True)
    weight, bias = (random(shape["width"], grad=True) for _ in range(2))

    def work():
        return F.layer_norm(x, (shape["width"],), weight, bias)

    return faster(there_and_back(work, (x, weight, bias)),
                  lambda: there_and_back(compiled(work), (x, weight, bias)))


def cross_entropy(shape):
    logits = random(shape["tokens"], shape["vocab"], grad=True)
    targets = torch.randint(shape["vocab"], (shape["tokens"],), device="cuda")

    def mean_loss(x, t):
        return F.cross_entropy(x, t)

    def step(loss_of):
        return {"both_s": time_of(lambda: torch.autograd.grad(loss_of(logits, targets), logits))}

    return faster(step(mean_loss), lambda: step(compiled(mean_loss)))


def adamw(shape):
    # Tensors of a transformer's size rather than one large tensor.
    sizes = [1 << 24] * (shape["elements"] >> 24)
    parameters = [torch.randn(size, device="cuda", requires_grad=True) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    return {"step_s": time_of(optimizer.step)}


KINDS = {"matmul": matmul, "copy": copy, "attention": attention, "layer_norm": layer_norm,
         "cross_entropy": cross_entropy, "adamw": adamw}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: gpu_ops_torch.py SHAPES.json")
    with open(sys.argv[1], encoding="utf-8") as file:
        shapes = json.load(file)
    torch.seed()
    results, errors = {}, {}
    for shape in shapes:
        try:
            results[shape["name"]] = KINDS[shape["kind"]](shape)
        except Exception as error:  # noqa: BLE001: the other ops still run
            traceback.print_exc()
            errors[shape["name"]] = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        torch.cuda.empty_cache()
        print(json.dumps({"torch": torch.__version__, "ops": results, "errors": errors}),
              flush=True)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
