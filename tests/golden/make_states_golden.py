#!/usr/bin/env python3
"""Writes states_run.json, with which tests/trainer/golden_test.cc compares types of states and optimizers.

The runs are those of make_gpt2_golden.py, from its weights and tokens, with other optimizers or types of states. SGD is
torch.optim.SGD in double precision. Runs with types of states compute in float; gradients of two microbatches are added in
their type, and moments are rounded when they are stored. Shares no code with the engine.

Run it with the system's Python (Debian's python3-torch): /usr/bin/python3 tests/golden/make_states_golden.py
"""
import json
import math
import pathlib

import golden_run
import make_gpt2_golden as gpt2
import torch

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20240601  # as in make_gpt2_golden.py
SGD = [{"precision": "fp64", "optimizer": "sgd", "momentum": momentum} for momentum in (0.0, 0.9)]
TYPES = [{"precision": f"fp32:{states}", "optimizer": "adamw", "momentum": 0.0}
         for states in ("grads=bf16", "moments=bf16", "grads=bf16,moments=bf16")]


def start(dtype):
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(gpt2.MODEL["vocab"], (gpt2.TOKENS,), generator=generator).tolist()
    weights = gpt2.make_weights(generator)
    return tokens, {name: w.detach().to(dtype).requires_grad_() for name, w in weights.items()}


def clip_factor(gradients):
    norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients))
    return norm, min(1.0, gpt2.RUN["clip_norm"] / (norm + 1e-6))


def sgd(momentum):
    tokens, weights = start(torch.float64)
    decays = [w for w in weights.values() if w.dim() >= 2]
    others = [w for w in weights.values() if w.dim() < 2]
    optimizer = torch.optim.SGD([{"params": decays, "weight_decay": gpt2.RUN["weight_decay"]},
                                 {"params": others, "weight_decay": 0.0}], lr=1.0, momentum=momentum)
    for step in range(gpt2.RUN["steps"]):
        optimizer.zero_grad()
        loss = gpt2.mean_loss(weights, *golden_run.batch(tokens, gpt2.RUN, step))
        loss.backward()
        norm, scale = clip_factor([w.grad for w in weights.values()])
        for w in weights.values():
            w.grad *= scale
        for group in optimizer.param_groups:
            group["lr"] = golden_run.learning_rate(gpt2.RUN, step)
        optimizer.step()
        yield float(loss), norm


def adamw(grads, moments):
    tokens, weights = start(torch.float32)
    kept = {name: (torch.zeros_like(w).to(moments), torch.zeros_like(w).to(moments)) for name, w in weights.items()}
    for step in range(gpt2.RUN["steps"]):
        inputs, targets = golden_run.batch(tokens, gpt2.RUN, step)
        total, gradients = 0.0, {}
        for part in torch.arange(gpt2.RUN["global_batch"]).chunk(2):
            loss = gpt2.mean_loss(weights, inputs[part], targets[part]) / 2
            total += float(loss)
            for name, g in zip(weights, torch.autograd.grad(loss, list(weights.values()))):
                gradients[name] = (gradients[name].float() + g if name in gradients else g).to(grads)
        norm, scale = clip_factor(gradients.values())
        wide = {name: (m.float(), v.float()) for name, (m, v) in kept.items()}
        golden_run.adamw(gpt2.RUN, weights, wide, {n: g.float() for n, g in gradients.items()}, step, scale)
        kept = {name: (m.to(moments), v.to(moments)) for name, (m, v) in wide.items()}
        yield total, norm


def run_of(variant):
    if variant["optimizer"] == "sgd":
        return sgd(variant["momentum"])
    bf16 = variant["precision"]
    return adamw(torch.bfloat16 if "grads" in bf16 else torch.float32,
                 torch.bfloat16 if "moments" in bf16 else torch.float32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    runs = []
    for variant in SGD + TYPES:
        steps = list(run_of(variant))
        runs.append({**variant, "losses": [loss for loss, _ in steps], "grad_norms": [norm for _, norm in steps]})
    result = {"made_by": f"make_states_golden.py with torch {torch.__version__}", "runs": runs}
    (HERE / "states_run.json").write_text(json.dumps(result, indent=1) + "\n")
