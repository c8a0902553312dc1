#!/usr/bin/env python3
"""Times a training step in eager PyTorch on one CPU thread, for comparison by bench/engine_step.

usage: pytorch_step.py MODEL_FILE [--seq-len 256] [--micro-batch 4] [--steps 6] [--threads 1]
MODEL_FILE is a model of autocfg in JSON, of GPT-2's or Llama's style. Prints one JSON line: {"torch", "step_time_s": [...], "loss": [...]}.
The step consists of forward, backward, clipping by the global norm and AdamW, as in the engine; fp32, no dropout.
"""
import argparse
import json
import math
import sys
import time

import torch
import torch.nn.functional as F


class RmsNorm(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotations(seq, dim, theta):
    """The cosines and sines of rotary positions, [seq, dim]: halves are rotated against each other."""
    angles = torch.outer(torch.arange(seq, dtype=torch.float32), theta ** (-torch.arange(0, dim, 2) / dim))
    angles = torch.cat((angles, angles), dim=1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Block(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        norm = RmsNorm if m["norm"] == "rmsnorm" else torch.nn.LayerNorm
        hidden, self.heads = m["hidden"], m["heads"]
        self.kv_heads, self.dim = m.get("kv_heads", self.heads), hidden // self.heads
        ffn = m.get("ffn_hidden", 4 * hidden)
        self.gated = m["activation"] == "swiglu"
        self.norm_1, self.norm_2 = norm(hidden), norm(hidden)
        self.qkv = torch.nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.dim, bias=m["bias"])
        self.out = torch.nn.Linear(hidden, hidden, bias=m["bias"])
        self.fc = torch.nn.Linear(hidden, 2 * ffn if self.gated else ffn, bias=m["bias"])
        self.proj = torch.nn.Linear(ffn, hidden, bias=m["bias"])

    def attention(self, x, mask, rotation):
        batch, seq, _ = x.shape
        sizes = [self.heads * self.dim, self.kv_heads * self.dim, self.kv_heads * self.dim]
        q, k, v = (t.view(batch, seq, -1, self.dim).transpose(1, 2) for t in self.qkv(x).split(sizes, dim=2))
        if rotation is not None:
            q, k = rotate(q, *rotation), rotate(k, *rotation)
        if self.kv_heads != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dim)
        scores = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, seq, -1))

    def forward(self, x, mask, rotation):
        x = x + self.attention(self.norm_1(x), mask, rotation)
        fc = self.fc(self.norm_2(x))
        if self.gated:
            gate, up = fc.chunk(2, dim=-1)
            return x + self.proj(F.silu(gate) * up)
        return x + self.proj(F.gelu(fc, approximate="tanh"))


class Model(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.spec = m
        self.wte = torch.nn.Embedding(m["vocab"], m["hidden"])
        self.wpe = torch.nn.Embedding(m["max_seq_len"], m["hidden"]) if m["position"] == "learned" else None
        self.blocks = torch.nn.ModuleList(Block(m) for _ in range(m["layers"]))
        self.norm = (RmsNorm if m["norm"] == "rmsnorm" else torch.nn.LayerNorm)(m["hidden"])
        self.head = None if m["tied_embeddings"] else torch.nn.Linear(m["hidden"], m["vocab"], bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        m, seq = self.spec, tokens.shape[1]
        mask = torch.triu(torch.ones(seq, seq, dtype=torch.bool), diagonal=1)
        x = self.wte(tokens)
        rotation = None
        if self.wpe is not None:
            x = x + self.wpe(torch.arange(seq))
        else:
            rotation = rotations(seq, m["hidden"] // m["heads"], m.get("rope_theta", 10000.0))
        for block in self.blocks:
            x = block(x, mask, rotation)
        logits = F.linear(self.norm(x), self.wte.weight if self.head is None else self.head.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    with open(args.model, encoding="utf-8") as file:
        spec = json.load(file)
    model = Model(spec)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=3e-4, betas=(0.9, 0.95), eps=1e-8)
    tokens = torch.randint(spec["vocab"], (args.micro_batch, args.seq_len + 1))

    times, losses = [], []
    for _ in range(args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    json.dump({"torch": torch.__version__, "step_time_s": times, "loss": losses}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
