"""Shared code of the golden scripts: the training run around a model, and the files that it writes.

The run follows docs/formats.md and docs/engine.md (data order, learning rate, clipping, AdamW), in double precision. It
shares no code with the engine.
"""
import array
import json
import math
import pathlib
import struct
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
LETTERS = {"F32": "f", "F64": "d"}


def batch(tokens, run, step):
    length, size = run["seq_len"], run["global_batch"]
    rows = torch.tensor([[tokens[(n * length + i) % len(tokens)] for i in range(length + 1)]
                         for n in range(step * size, (step + 1) * size)])
    return rows[:, :-1], rows[:, 1:]


def learning_rate(run, step):
    warmup, last = run["warmup_steps"], run["steps"] - 1
    if step < warmup:
        return run["lr"] * (step + 1) / warmup
    progress = (step - warmup) / (last - warmup)
    return run["min_lr"] + 0.5 * (run["lr"] - run["min_lr"]) * (1 + math.cos(math.pi * progress))


def adamw(run, weights, moments, gradients, step, scale):
    b1, b2, lr = run["beta1"], run["beta2"], learning_rate(run, step)
    for name, parameter in weights.items():
        gradient = gradients[name] * scale
        first, second = moments[name]
        first.mul_(b1).add_(gradient * (1 - b1))
        second.mul_(b2).add_(gradient ** 2 * (1 - b2))
        decay = run["weight_decay"] if parameter.dim() >= 2 else 0.0
        update = (first / (1 - b1 ** (step + 1))) / ((second / (1 - b2 ** (step + 1))).sqrt() + run["adam_eps"])
        with torch.no_grad():
            parameter -= lr * decay * parameter + lr * update


def write_safetensors(path, weights, dtype):
    header, data = {}, b""
    for name, tensor in weights.items():
        values = tensor.detach().reshape(-1).tolist()
        raw = struct.pack(f"<{len(values)}{LETTERS[dtype]}", *values)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_golden(name, seed, model, run, token_count, make_weights, mean_loss, initial_dtype, script=None):
    """Trains, and writes NAME_tokens.u16, NAME_initial.safetensors, NAME_final.safetensors and NAME_run.json beside this script.

    make_weights(generator) -> {name: tensor}; mean_loss(weights, inputs, targets) -> scalar. `initial_dtype` must represent
    the weights exactly. `script`: the one that calls, unless it is named after the model.
    """
    generator = torch.Generator().manual_seed(seed)
    torch.set_num_threads(1)
    tokens = torch.randint(model["vocab"], (token_count,), generator=generator).tolist()
    ids = array.array("H", tokens)
    if sys.byteorder == "big":
        ids.byteswap()
    (HERE / f"{name}_tokens.u16").write_bytes(ids.tobytes())

    weights = make_weights(generator)
    write_safetensors(HERE / f"{name}_initial.safetensors", weights, initial_dtype)
    moments = {key: (torch.zeros_like(w), torch.zeros_like(w)) for key, w in weights.items()}
    losses, norms = [], []
    for step in range(run["steps"]):
        loss = mean_loss(weights, *batch(tokens, run, step))
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values()))))
        norm = math.sqrt(sum(float((g ** 2).sum()) for g in gradients.values()))
        adamw(run, weights, moments, gradients, step, min(1.0, run["clip_norm"] / (norm + 1e-6)))
        losses.append(float(loss))
        norms.append(norm)
    write_safetensors(HERE / f"{name}_final.safetensors", weights, "F64")
    result = {"made_by": f"{script or f'make_{name}_golden.py'} with torch {torch.__version__}", "model": model, "run": run,
              "losses": losses, "grad_norms": norms}
    (HERE / f"{name}_run.json").write_text(json.dumps(result, indent=1) + "\n")
