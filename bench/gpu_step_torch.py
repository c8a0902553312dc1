#!/usr/bin/env python3
"""Times a training step of PyTorch on one GPU, with which deploy/gpu_check compares the engine's
step.

The step consists of forward, backward, clipping by the global norm and AdamW, as in the engine;
random tokens, no dropout. It uses bf16 by autocast over fp32 weights, with the residual stream in
bf16 too, scaled_dot_product_attention, fused AdamW and torch.compile. torch.compile covers the
whole model, or separately its blocks and its end, which compiles faster. The model is one of this
project's JSON files (docs/formats.md).

Prints one JSON line: {"torch", "compiled", "compile_error", "step_time_s": [...], "loss": [...],
"peak_memory_bytes", "compile_s"}. If torch.compile fails, the model runs without it: "compiled" is
then "none" and "compile_error" gives the reason. Exit code 3: the GPU's memory is too small for
this micro batch.
"""
import argparse
import json
import sys
import time
import traceback

import torch
import torch.nn.functional as F


class Spec:
    def __init__(self, description):
        self.layers, self.hidden, self.heads, self.vocab = (
            description[key] for key in ("layers", "hidden", "heads", "vocab"))
        self.kv_heads = description.get("kv_heads", self.heads)
        self.head_dim = description.get("head_dim", self.hidden // self.heads)
        self.ffn = description.get("ffn_hidden", 4 * self.hidden)
        self.positions = description.get("max_seq_len", 1024)
        self.activation = description.get("activation", "gelu")
        self.rms = description.get("norm", "layernorm") == "rmsnorm"
        self.eps = description.get("norm_eps", 1e-5)
        self.rope = description.get("position", "learned") == "rope"
        self.theta = description.get("rope_theta", 10000)
        self.bias = description.get("bias", True)
        self.tied = description.get("tied_embeddings", True)
        if self.activation not in ("gelu", "swiglu"):
            sys.exit(f"gpu_step_torch: activation {self.activation} is not supported; use gelu or "
                     "swiglu")
        # Padded as in the engine, so that both compute the same products.
        self.padded = -(-self.vocab // 128) * 128


def norm(spec):
    return torch.nn.RMSNorm(spec.hidden,
                            eps=spec.eps) if spec.rms else torch.nn.LayerNorm(
                                spec.hidden, eps=spec.eps)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Block(torch.nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.spec = spec
        width = spec.heads * spec.head_dim
        self.norm_1, self.norm_2 = norm(spec), norm(spec)
        self.qkv = torch.nn.Linear(spec.hidden, width + 2 * spec.kv_heads * spec.head_dim,
                                   bias=spec.bias)
        self.out = torch.nn.Linear(width, spec.hidden, bias=spec.bias)
        self.gated = spec.activation == "swiglu"
        self.fc = torch.nn.Linear(spec.hidden, (2 if self.gated else 1) * spec.ffn, bias=spec.bias)
        self.proj = torch.nn.Linear(spec.ffn, spec.hidden, bias=spec.bias)

    def forward(self, x, cos, sin):
        spec = self.spec
        batch, seq, _ = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, seq, spec.heads + 2 * spec.kv_heads,
                                            spec.head_dim).transpose(1, 2)
        q, k, v = qkv.split([spec.heads, spec.kv_heads, spec.kv_heads], dim=1)
        if spec.rope:
            q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        attention = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=spec.kv_heads != spec.heads)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, seq, -1))
        wide = self.fc(self.norm_2(x))
        if self.gated:
            gate, up = wide.chunk(2, dim=-1)
            wide = F.silu(gate) * up
        else:
            wide = F.gelu(wide, approximate="tanh")
        return x + self.proj(wide)


class End(torch.nn.Module):
    """The part from the last block to the mean loss."""

    def __init__(self, spec):
        super().__init__()
        self.norm = norm(spec)
        self.head = torch.nn.Linear(spec.hidden, spec.padded, bias=False)

    def forward(self, x, targets):
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class Model(torch.nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.tokens = torch.nn.Embedding(spec.padded, spec.hidden)
        self.positions = None if spec.rope else torch.nn.Embedding(spec.positions, spec.hidden)
        self.blocks = torch.nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.end = End(spec)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)
        if spec.tied:
            self.end.head.weight = self.tokens.weight

    def forward(self, tokens, targets, cos, sin):
        x = self.tokens(tokens).to(torch.bfloat16)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]].to(torch.bfloat16)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.end(x, targets)


def compile_parts(model, parts):
    """Marks the model's parts for torch.compile, which compiles them at their first call.

    With fullgraph, a part that cannot be compiled fails instead of silently running in Python.
    """
    options = {"fullgraph": True, "dynamic": False}
    if parts == "model":
        model.compile(**options)
    elif parts == "blocks":
        for block in model.blocks:
            block.compile(**options)
        model.end.compile(**options)


def out_of_memory(error):
    """Returns True if the error, or one that caused it, reports insufficient GPU memory.

    The report may come from PyTorch's allocator, from a library, or from the compiler that wraps
    either.
    """
    while error is not None:
        if isinstance(error, torch.cuda.OutOfMemoryError) or any(
                words in str(error) for words in ("out of memory", "ALLOC_FAILED")):
            return True
        error = error.__cause__ or error.__context__
    return False


def compiled_model(spec, parts, one_step):
    """Returns (model, compiled parts, error that prevented compiling the requested parts). Runs
    `one_step` to find out."""
    def make():
        with torch.device("cuda"):
            return Model(spec)

    model = make()
    if parts == "none":
        return model, parts, None
    try:
        compile_parts(model, parts)
        one_step(model)
        return model, parts, None
    except Exception as error:  # noqa: BLE001: any error of the compiler or its backends
        if out_of_memory(error):
            raise
        traceback.print_exc()
        why = " ".join(f"{type(error).__name__}: {error}".split())[:2000]
    del model
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    return make(), "none", why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--seq-len", type=int, required=True)
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", choices=("model", "blocks", "none"), default="model")
    args = parser.parse_args()
    with open(args.model, encoding="utf-8") as file:
        spec = Spec(json.load(file))

    torch.manual_seed(int(time.time()))
    torch.set_float32_matmul_precision("high")
    try:
        result = run(spec, args)
    except Exception as error:
        if not out_of_memory(error):
            raise
        print(f"gpu_step_torch: does not fit: {error}", file=sys.stderr)
        sys.exit(3)
    json.dump(result, sys.stdout)
    print()


def run(spec, args):
    angles = torch.outer(torch.arange(args.seq_len, dtype=torch.float32),
                         spec.theta ** (-torch.arange(0, spec.head_dim, 2) / spec.head_dim))
    cos, sin = angles.cos().cuda(), angles.sin().cuda()

    def fresh_tokens():
        return torch.randint(spec.vocab, (args.micro_batch, args.seq_len + 1), device="cuda")

    def loss_of(model, tokens):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(tokens[:, :-1], tokens[:, 1:], cos, sin)

    start = time.perf_counter()
    model, compiled, why = compiled_model(spec, args.compile,
                                          lambda made: loss_of(made, fresh_tokens()).backward())
    torch.cuda.synchronize()
    compile_s = time.perf_counter() - start
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                                   {"params": others, "weight_decay": 0.0}], lr=3e-4,
                                  betas=(0.9, 0.95), eps=1e-8, fused=True)
    times, losses = [], []
    for _ in range(args.steps):
        tokens = fresh_tokens()
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return {"torch": torch.__version__, "compiled": compiled, "compile_error": why,
            "step_time_s": times, "loss": losses, "compile_s": compile_s,
            "peak_memory_bytes": torch.cuda.max_memory_allocated()}


if __name__ == "__main__":
    main()
