#!/usr/bin/env python3
"""Writes the golden files of three small models whose attention is not Llama's, for tests/trainer/golden_test.cc.

Independent implementations in double precision with PyTorch's automatic differentiation, as make_llama_golden.py:

    qk_norm   RMS norms of the queries and keys of each head, rotary positions on the first dims of each head only, and
              another scale of the scores (as Qwen 3, GPT-NeoX and Granite)
    full_norm RMS norms over all queries of a token, and over all its keys (as OLMo 2)
    alibi     linear biases of the scores in place of positions (Press et al. 2022), for heads that are no power of two

All have RMSNorm, grouped-query attention, SwiGLU and an untied output layer. The biases are added as Bloom does, by the
position of the key alone: what is equal for all keys of a query does not change a softmax. Writes NAME_tokens.u16,
NAME_initial.safetensors, NAME_final.safetensors and NAME_run.json beside this script. Run it with the system's Python
(Debian's python3-torch): /usr/bin/python3 tests/golden/make_attention_golden.py
"""
import math

import golden_run
import torch

SIZES = {"layers": 2, "hidden": 20, "heads": 6, "kv_heads": 2, "head_dim": 8, "ffn_hidden": 24, "vocab": 45, "max_seq_len": 16,
         "norm_eps": 1e-5}
MODELS = {"qk_norm": SIZES | {"rope_theta": 500.0, "rotary_dims": 6, "attention_scale": 0.6},
          "full_norm": SIZES | {"rope_theta": 500.0}, "alibi": SIZES}
RUN = {"seq_len": 11, "global_batch": 4, "steps": 6, "lr": 0.01, "min_lr": 0.001, "lr_schedule": "cosine", "warmup_steps": 2,
       "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "adam_eps": 1e-8, "clip_norm": 2.5}
TOKENS = 151


def rms_norm(x, gamma):
    return x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + SIZES["norm_eps"]) * gamma


def rotate(x, theta, dims):
    """Rotates the first `dims` of x[batch, head, position, dim]: element i with element i + dims / 2."""
    turned, rest = x[..., :dims], x[..., dims:]
    low, high = turned.chunk(2, dim=-1)
    frequency = theta ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequency
    return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin(), rest], -1)


def slopes(heads):
    """The slopes of the paper's code."""
    def of_power(n):
        start = 2 ** (-2 ** -(math.log2(n) - 3))
        return [start * start ** i for i in range(n)]
    lower = 2 ** math.floor(math.log2(heads))
    return of_power(lower) + of_power(2 * lower)[0::2][:heads - lower]


class Model:
    def __init__(self, name):
        self.name, self.sizes = name, MODELS[name]

    def make_weights(self, generator):
        """Returns weights of which none is zero or one, so that errors cannot stay hidden. fp32 represents them exactly."""
        def normal(*shape, std=0.2, mean=0.0):
            single = torch.randn(*shape, dtype=torch.float32, generator=generator) * std + mean
            return single.double().requires_grad_()

        sizes = self.sizes
        hidden, ffn, vocab, dim = sizes["hidden"], sizes["ffn_hidden"], sizes["vocab"], sizes["head_dim"]
        queries, keys = sizes["heads"] * dim, sizes["kv_heads"] * dim
        weights = {"model.embed_tokens.weight": normal(vocab, hidden)}
        for layer in range(sizes["layers"]):
            prefix = f"model.layers.{layer}."
            weights[prefix + "input_layernorm.weight"] = normal(hidden, mean=1.0)
            weights[prefix + "self_attn.q_proj.weight"] = normal(queries, hidden)
            weights[prefix + "self_attn.k_proj.weight"] = normal(keys, hidden)
            weights[prefix + "self_attn.v_proj.weight"] = normal(keys, hidden)
            if self.name == "qk_norm":
                weights[prefix + "self_attn.q_norm.weight"] = normal(dim, mean=1.0)
                weights[prefix + "self_attn.k_norm.weight"] = normal(dim, mean=1.0)
            if self.name == "full_norm":
                weights[prefix + "self_attn.q_norm.weight"] = normal(queries, mean=1.0)
                weights[prefix + "self_attn.k_norm.weight"] = normal(keys, mean=1.0)
            weights[prefix + "self_attn.o_proj.weight"] = normal(hidden, queries)
            weights[prefix + "post_attention_layernorm.weight"] = normal(hidden, mean=1.0)
            weights[prefix + "mlp.gate_proj.weight"] = normal(ffn, hidden)
            weights[prefix + "mlp.up_proj.weight"] = normal(ffn, hidden)
            weights[prefix + "mlp.down_proj.weight"] = normal(hidden, ffn)
        weights["model.norm.weight"] = normal(hidden, mean=1.0)
        weights["lm_head.weight"] = normal(vocab, hidden)
        return weights

    def attention(self, x, weights, prefix):
        batch, length, _ = x.shape
        heads, kv_heads, dim = self.sizes["heads"], self.sizes["kv_heads"], self.sizes["head_dim"]

        def project(what, count):
            y = x @ weights[f"{prefix}{what}_proj.weight"].T
            if self.name == "full_norm" and what != "v":
                y = rms_norm(y, weights[f"{prefix}{what}_norm.weight"])
            return y.reshape(batch, length, count, dim).permute(0, 2, 1, 3)

        q, k, v = project("q", heads), project("k", kv_heads), project("v", kv_heads)
        bias, scale = 0, dim ** -0.5
        if self.name == "qk_norm":
            theta, dims, scale = self.sizes["rope_theta"], self.sizes["rotary_dims"], self.sizes["attention_scale"]
            q = rotate(rms_norm(q, weights[prefix + "q_norm.weight"]), theta, dims)
            k = rotate(rms_norm(k, weights[prefix + "k_norm.weight"]), theta, dims)
        elif self.name == "full_norm":
            q, k = (rotate(t, self.sizes["rope_theta"], dim) for t in (q, k))
        else:
            positions = torch.arange(length, dtype=torch.float64)
            bias = torch.tensor(slopes(heads), dtype=torch.float64)[:, None, None] * positions
        k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * scale + bias
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = torch.einsum("bhij,bhjd->bhid", scores.masked_fill(future, -math.inf).softmax(-1), v)
        return mixed.permute(0, 2, 1, 3).reshape(batch, length, heads * dim) @ weights[prefix + "o_proj.weight"].T

    def mean_loss(self, weights, inputs, targets):
        x = weights["model.embed_tokens.weight"][inputs]
        for layer in range(self.sizes["layers"]):
            prefix = f"model.layers.{layer}."
            x = x + self.attention(rms_norm(x, weights[prefix + "input_layernorm.weight"]), weights, prefix + "self_attn.")
            y = rms_norm(x, weights[prefix + "post_attention_layernorm.weight"])
            gate, up = y @ weights[prefix + "mlp.gate_proj.weight"].T, y @ weights[prefix + "mlp.up_proj.weight"].T
            x = x + (torch.nn.functional.silu(gate) * up) @ weights[prefix + "mlp.down_proj.weight"].T
        logits = rms_norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


if __name__ == "__main__":
    for seed, name in enumerate(MODELS, 20261126):
        model = Model(name)
        golden_run.write_golden(name, seed, model.sizes, RUN, TOKENS, model.make_weights, model.mean_loss, initial_dtype="F32",
                                script="make_attention_golden.py")
