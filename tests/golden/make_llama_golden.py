#!/usr/bin/env python3
"""Writes the golden files of a small Llama with which tests/trainer/golden_test.cc compares the engine.

An independent implementation in double precision: RMSNorm, rotary positions, grouped-query attention, SwiGLU and an untied
output layer in plain tensor operations with PyTorch's automatic differentiation. Rotations are complex products and
key-value heads are repeated, as in the papers. golden_run.py implements the training run. Shares no code with the engine.
Writes these files beside this script:

    llama_tokens.u16            the data: little-endian token ids
    llama_initial.safetensors   weights before the first step, F32 (exact), with Hugging Face's names and [out, in] matrices
    llama_final.safetensors     weights after the last step, F64
    llama_run.json              the run's settings, and the loss and gradient norm of each step

Run it with the system's Python (Debian's python3-torch): /usr/bin/python3 tests/golden/make_llama_golden.py
"""
import math

import golden_run
import torch

MODEL = {"layers": 4, "hidden": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn_hidden": 40, "vocab": 61, "max_seq_len": 16,
         "norm_eps": 1e-5, "rope_theta": 1000.0}
RUN = {"seq_len": 9, "global_batch": 8, "steps": 8, "lr": 0.01, "min_lr": 0.001, "lr_schedule": "cosine", "warmup_steps": 2,
       "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "adam_eps": 1e-8, "clip_norm": 2.5}
TOKENS = 157  # fewer than the run reads, and not a multiple of the sequence length: the data wraps around


def make_weights(generator):
    """Returns weights of which none is zero or one, so that errors cannot stay hidden. fp32 represents them exactly."""
    def normal(*shape, std=0.2, mean=0.0):
        single = torch.randn(*shape, dtype=torch.float32, generator=generator) * std + mean
        return single.double().requires_grad_()

    hidden, ffn, vocab = MODEL["hidden"], MODEL["ffn_hidden"], MODEL["vocab"]
    queries, keys = MODEL["heads"] * MODEL["head_dim"], MODEL["kv_heads"] * MODEL["head_dim"]
    weights = {"model.embed_tokens.weight": normal(vocab, hidden)}
    for layer in range(MODEL["layers"]):
        prefix = f"model.layers.{layer}."
        weights[prefix + "input_layernorm.weight"] = normal(hidden, mean=1.0)
        weights[prefix + "self_attn.q_proj.weight"] = normal(queries, hidden)
        weights[prefix + "self_attn.k_proj.weight"] = normal(keys, hidden)
        weights[prefix + "self_attn.v_proj.weight"] = normal(keys, hidden)
        weights[prefix + "self_attn.o_proj.weight"] = normal(hidden, queries)
        weights[prefix + "post_attention_layernorm.weight"] = normal(hidden, mean=1.0)
        weights[prefix + "mlp.gate_proj.weight"] = normal(ffn, hidden)
        weights[prefix + "mlp.up_proj.weight"] = normal(ffn, hidden)
        weights[prefix + "mlp.down_proj.weight"] = normal(hidden, ffn)
    weights["model.norm.weight"] = normal(hidden, mean=1.0)
    weights["lm_head.weight"] = normal(vocab, hidden)
    return weights


def rms_norm(x, gamma):
    return x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + MODEL["norm_eps"]) * gamma


def rotate(x):
    """Rotates x[batch, head, position, dim].

    Element i and element i + dim/2 form a complex number, rotated by position * theta^(-2i/dim).
    """
    half = x.shape[-1] // 2
    frequency = MODEL["rope_theta"] ** (-2 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angle = torch.arange(x.shape[-2], dtype=torch.float64).outer(frequency)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


def attention(x, weights, prefix):
    batch, length, _ = x.shape
    heads, kv_heads, dim = MODEL["heads"], MODEL["kv_heads"], MODEL["head_dim"]

    def project(what, count):
        y = x @ weights[f"{prefix}{what}_proj.weight"].T
        return y.reshape(batch, length, count, dim).permute(0, 2, 1, 3)

    q = rotate(project("q", heads))
    k = rotate(project("k", kv_heads)).repeat_interleave(heads // kv_heads, dim=1)
    v = project("v", kv_heads).repeat_interleave(heads // kv_heads, dim=1)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(dim)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    probabilities = scores.masked_fill(future, -math.inf).softmax(-1)
    mixed = torch.einsum("bhij,bhjd->bhid", probabilities, v)
    return mixed.permute(0, 2, 1, 3).reshape(batch, length, heads * dim) @ weights[prefix + "o_proj.weight"].T


def feed_forward(x, weights, prefix):
    gate = x @ weights[prefix + "gate_proj.weight"].T
    up = x @ weights[prefix + "up_proj.weight"].T
    return (gate / (1 + torch.exp(-gate)) * up) @ weights[prefix + "down_proj.weight"].T


def mean_loss(weights, inputs, targets):
    x = weights["model.embed_tokens.weight"][inputs]
    for layer in range(MODEL["layers"]):
        prefix = f"model.layers.{layer}."
        x = x + attention(rms_norm(x, weights[prefix + "input_layernorm.weight"]), weights, prefix + "self_attn.")
        x = x + feed_forward(rms_norm(x, weights[prefix + "post_attention_layernorm.weight"]), weights, prefix + "mlp.")
    logits = rms_norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T
    log_probabilities = logits - logits.logsumexp(-1, keepdim=True)
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).mean()


if __name__ == "__main__":
    golden_run.write_golden("llama", 20240602, MODEL, RUN, TOKENS, make_weights, mean_loss, initial_dtype="F32")
