#!/usr/bin/env python3
"""Times single ops of PyTorch on one GPU, at the shapes of a file (deploy/gpu/op_shapes.json): what autocfg_gpu_ops_bench is compared with.

Each time is the median of many runs by events on the stream, after warm-up, on random data: bf16, as the engine computes; AdamW over fp32. Where eager and
compiled code do the same, the faster counts. usage: gpu_ops_torch.py SHAPES.json. Prints one JSON line: {"torch", "ops": {name: {part: {"median_s", "min_s", "runs"}}}}.
"""
import json
import statistics
import sys

import torch
import torch.nn.functional as F

RUNS, WARM_UP = 30, 5


def time_of(work, prepare=None):
    spans = []
    for run in range(RUNS + WARM_UP):
        if prepare is not None:
            prepare()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        if run >= WARM_UP:
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


def there_and_back(forward, inputs):
    """Forward, and backward of one kept graph."""
    with torch.no_grad():
        there = time_of(forward)
    out = forward()
    gradient = torch.randn_like(out)
    return {"forward_s": there, "backward_s": time_of(lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True))}


def faster(*timings):
    """The better of eager and compiled, part by part."""
    return {part: min((timing[part] for timing in timings), key=lambda entry: entry["median_s"]) for part in timings[0]}


def attention(shape):
    batch, seq, dim = shape["batch"], shape["seq"], shape["head_dim"]
    q = random(batch, shape["heads"], seq, dim, grad=True)
    k, v = (random(batch, shape["kv_heads"], seq, dim, grad=True) for _ in range(2))
    gqa = shape["heads"] != shape["kv_heads"]
    return there_and_back(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa), (q, k, v))


def layer_norm(shape):
    x = random(shape["tokens"], shape["width"], grad=True)
    weight, bias = (random(shape["width"], grad=True) for _ in range(2))
    work = lambda: F.layer_norm(x, (shape["width"],), weight, bias)  # noqa: E731
    return faster(there_and_back(work, (x, weight, bias)), there_and_back(torch.compile(work), (x, weight, bias)))


def cross_entropy(shape):
    logits = random(shape["tokens"], shape["vocab"], grad=True)
    targets = torch.randint(shape["vocab"], (shape["tokens"],), device="cuda")

    def step(loss_of):
        return time_of(lambda: torch.autograd.grad(loss_of(logits, targets), logits))

    return faster({"both_s": step(F.cross_entropy)}, {"both_s": step(torch.compile(F.cross_entropy))})


def adamw(shape):
    # Tensors of a transformer's size rather than one.
    sizes = [1 << 24] * (shape["elements"] >> 24)
    parameters = [torch.randn(size, device="cuda", requires_grad=True) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    return {"step_s": time_of(optimizer.step)}


KINDS = {"matmul": matmul, "copy": copy, "attention": attention, "layer_norm": layer_norm, "cross_entropy": cross_entropy, "adamw": adamw}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: gpu_ops_torch.py SHAPES.json")
    with open(sys.argv[1], encoding="utf-8") as file:
        shapes = json.load(file)
    torch.manual_seed(torch.seed() % (1 << 63))
    results = {}
    for shape in shapes:
        results[shape["name"]] = KINDS[shape["kind"]](shape)
        torch.cuda.empty_cache()
    json.dump({"torch": torch.__version__, "ops": results}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
