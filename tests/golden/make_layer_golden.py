#!/usr/bin/env python3
"""Writes the golden files of six small models whose layers are not Llama's, for tests/trainer/golden_test.cc.

Independent implementations in double precision with PyTorch's automatic differentiation, as make_llama_golden.py:

    granite   scaled embeddings, residuals and logits, another scale of the scores, biases of attention
    smollm3   every second layer has no rotary positions; a tied output layer
    olmo2     norms on the outputs of attention and feed-forward in place of those on inputs; norms over all queries of a
              token, and over all its keys
    gemma3    norms on inputs and outputs, and of the queries and keys of each head, which all store what is added to 1;
              scaled embeddings, GeGLU, a tied output layer
    gemma2    as gemma3, without norms of queries and keys; soft caps of scores and of logits; every second layer attends to
              a window of 4 tokens
    kinds     as gemma3, with layers of four kinds: with a window and frequencies of their own, with frequencies that are scaled
              by 1/4, the same within chunks of 6 tokens, without rotary positions

All have RMSNorm, grouped-query attention, a gated activation and rotary positions. "model" of NAME_run.json is a model of
docs/formats.md. Writes NAME_tokens.u16, NAME_initial.safetensors, NAME_final.safetensors and NAME_run.json beside this
script. Run it with the system's Python (Debian's python3-torch): /usr/bin/python3 tests/golden/make_layer_golden.py
"""
import math

import golden_run
import torch

SIZES = {"layers": 2, "hidden": 20, "heads": 6, "kv_heads": 2, "head_dim": 8, "ffn_hidden": 24, "vocab": 45, "max_seq_len": 16,
         "norm": "rmsnorm", "norm_eps": 1e-5, "activation": "swiglu", "position": "rope", "rope_theta": 500.0, "bias": False,
         "tied_embeddings": False, "vocab_multiple": 8}
MODELS = {
    "granite": SIZES | {"embedding_scale": 3.0, "residual_scale": 0.4, "logit_scale": 0.5, "attention_scale": 0.3, "qkv_bias": True,
                        "attention_out_bias": True},
    "smollm3": SIZES | {"layers": 4, "no_rope_layer_interval": 2, "tied_embeddings": True},
    "olmo2": SIZES | {"norm_placement": "output", "qk_norm": "full"},
    "gemma3": SIZES | {"norm_placement": "sandwich", "qk_norm": "head", "activation": "geglu", "embedding_scale": 20 ** 0.5,
                       "attention_scale": 0.25, "tied_embeddings": True},
    "gemma2": SIZES | {"layers": 4, "norm_placement": "sandwich", "activation": "geglu", "embedding_scale": 20 ** 0.5, "attention_scale": 0.25,
                       "tied_embeddings": True, "attention_softcap": 1.5, "output_softcap": 2.0, "sliding_window": 4, "sliding_window_pattern": 2},
}
MODELS["kinds"] = MODELS["gemma3"] | {
    "layers": 6, "rope_scaling": {"type": "linear", "factor": 4.0},
    "layer_kinds": [{"layers": 2, "window": 4, "rope_theta": 20.0}, {"layers": 1}, {"layers": 1, "chunk": 6}, {"layers": 2, "rotary": False}]}
GEMMAS = ("gemma2", "gemma3", "kinds")
RUN = {"seq_len": 11, "global_batch": 4, "steps": 6, "lr": 0.01, "min_lr": 0.001, "lr_schedule": "cosine", "warmup_steps": 2,
       "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "adam_eps": 1e-8}
TOKENS = 151
CLIP_NORMS = {"granite": 0.56, "smollm3": 2.5, "olmo2": 3.1, "gemma3": 1.9, "gemma2": 2.4, "kinds": 3.7}
SEQ_LENS = {"kinds": 12}


def rotate(x, theta, divisor=1.0):
    """Rotates x[batch, head, position, dim]: element i with element i + dim / 2. `divisor`: of the frequencies."""
    low, high = x.chunk(2, dim=-1)
    frequency = theta ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * (frequency / divisor)
    return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], -1)


class Model:
    def __init__(self, name):
        self.name, self.spec = name, MODELS[name]
        self.one = 1.0 if name in GEMMAS else 0.0  # what is added to a norm's stored weights

    def make_weights(self, generator):
        """Returns weights of which none is zero or one, so that errors cannot stay hidden. fp32 represents them exactly."""
        def normal(*shape, std=0.2, mean=0.0):
            single = torch.randn(*shape, dtype=torch.float32, generator=generator) * std + mean
            return single.double().requires_grad_()

        spec = self.spec
        hidden, ffn, vocab, dim = spec["hidden"], spec["ffn_hidden"], spec["vocab"], spec["head_dim"]
        queries, keys = spec["heads"] * dim, spec["kv_heads"] * dim
        norm = {"mean": 1.0 - self.one}
        weights = {"model.embed_tokens.weight": normal(vocab, hidden)}
        around = ["input", "post_attention", "pre_feedforward", "post_feedforward"]
        norms = {"olmo2": ["post_attention", "post_feedforward"]}.get(self.name, around if self.name in GEMMAS else ["input", "post_attention"])
        for layer in range(spec["layers"]):
            prefix = f"model.layers.{layer}."
            for which in norms:
                weights[f"{prefix}{which}_layernorm.weight"] = normal(hidden, **norm)
            for which, width in (("q", queries), ("k", keys), ("v", keys)):
                weights[f"{prefix}self_attn.{which}_proj.weight"] = normal(width, hidden)
                if spec.get("qkv_bias"):
                    weights[f"{prefix}self_attn.{which}_proj.bias"] = normal(width)
            if "qk_norm" in spec:
                whole = spec["qk_norm"] == "full"
                weights[prefix + "self_attn.q_norm.weight"] = normal(queries if whole else dim, **norm)
                weights[prefix + "self_attn.k_norm.weight"] = normal(keys if whole else dim, **norm)
            weights[prefix + "self_attn.o_proj.weight"] = normal(hidden, queries)
            if spec.get("attention_out_bias"):
                weights[prefix + "self_attn.o_proj.bias"] = normal(hidden)
            weights[prefix + "mlp.gate_proj.weight"] = normal(ffn, hidden)
            weights[prefix + "mlp.up_proj.weight"] = normal(ffn, hidden)
            weights[prefix + "mlp.down_proj.weight"] = normal(hidden, ffn)
        weights["model.norm.weight"] = normal(hidden, **norm)
        if not spec["tied_embeddings"]:
            weights["lm_head.weight"] = normal(vocab, hidden)
        return weights

    def norm(self, x, weights, name):
        return x / torch.sqrt((x ** 2).mean(-1, keepdim=True) + self.spec["norm_eps"]) * (self.one + weights[name + ".weight"])

    def rotate(self, x, kind):
        if "rope_theta" in kind:
            return rotate(x, kind["rope_theta"])
        return rotate(x, self.spec["rope_theta"], self.spec.get("rope_scaling", {}).get("factor", 1.0))

    def cap(self, x, field):
        return self.spec[field] * torch.tanh(x / self.spec[field]) if field in self.spec else x

    def attention(self, x, weights, prefix, kind_of_layer):
        batch, length, _ = x.shape
        heads, kv_heads, dim = self.spec["heads"], self.spec["kv_heads"], self.spec["head_dim"]
        kind = self.spec.get("qk_norm")

        def project(what, count):
            y = x @ weights[f"{prefix}{what}_proj.weight"].T + weights.get(f"{prefix}{what}_proj.bias", 0)
            if kind == "full" and what != "v":
                y = self.norm(y, weights, f"{prefix}{what}_norm")
            y = y.reshape(batch, length, count, dim)
            if kind == "head" and what != "v":
                y = self.norm(y, weights, f"{prefix}{what}_norm")
            y = y.permute(0, 2, 1, 3)
            return self.rotate(y, kind_of_layer) if kind_of_layer.get("rotary", True) and what != "v" else y

        q, k, v = project("q", heads), project("k", kv_heads), project("v", kv_heads)
        k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.spec.get("attention_scale", dim ** -0.5)
        scores = self.cap(scores, "attention_softcap")
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        if "window" in kind_of_layer:
            hidden |= torch.ones(length, length, dtype=torch.bool).tril(-kind_of_layer["window"])
        if "chunk" in kind_of_layer:
            chunk = torch.arange(length) // kind_of_layer["chunk"]
            hidden |= chunk[:, None] != chunk[None, :]
        mixed = torch.einsum("bhij,bhjd->bhid", scores.masked_fill(hidden, -math.inf).softmax(-1), v)
        mixed = mixed.permute(0, 2, 1, 3).reshape(batch, length, heads * dim)
        return mixed @ weights[prefix + "o_proj.weight"].T + weights.get(prefix + "o_proj.bias", 0)

    def feed_forward(self, x, weights, prefix):
        gate, up = x @ weights[prefix + "gate_proj.weight"].T, x @ weights[prefix + "up_proj.weight"].T
        gelu = self.spec["activation"] == "geglu"
        activated = torch.nn.functional.gelu(gate, approximate="tanh") if gelu else torch.nn.functional.silu(gate)
        return (activated * up) @ weights[prefix + "down_proj.weight"].T

    def kinds(self):
        """Returns the kind of each layer."""
        spec = self.spec
        if "layer_kinds" in spec:
            return [run for run in spec["layer_kinds"] for _ in range(run["layers"])]
        interval, pattern = spec.get("no_rope_layer_interval"), spec.get("sliding_window_pattern")
        kinds = [{"rotary": interval is None or layer % interval != 0} for layer in range(1, spec["layers"] + 1)]
        for layer, kind in enumerate(kinds, 1):
            if "sliding_window" in spec and (pattern is None or layer % pattern != 0):
                kind["window"] = spec["sliding_window"]
        return kinds

    def mean_loss(self, weights, inputs, targets):
        spec = self.spec
        x = weights["model.embed_tokens.weight"][inputs] * spec.get("embedding_scale", 1)
        scale = spec.get("residual_scale", 1)
        for layer, kind in enumerate(self.kinds()):
            prefix = f"model.layers.{layer}."
            before, mlp_before = {"olmo2": (None, None)}.get(self.name, ("input", "post_attention"))
            if self.name in GEMMAS:
                before, mlp_before = "input", "pre_feedforward"
            after, mlp_after = ("post_attention", "post_feedforward") if self.name in ("olmo2", *GEMMAS) else (None, None)
            named = lambda x, which: x if which is None else self.norm(x, weights, f"{prefix}{which}_layernorm")
            x = x + scale * named(self.attention(named(x, before), weights, prefix + "self_attn.", kind), after)
            x = x + scale * named(self.feed_forward(named(x, mlp_before), weights, prefix + "mlp."), mlp_after)
        head = weights["model.embed_tokens.weight" if spec["tied_embeddings"] else "lm_head.weight"]
        logits = self.cap(self.norm(x, weights, "model.norm") @ head.T * spec.get("logit_scale", 1), "output_softcap")
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


if __name__ == "__main__":
    for seed, name in enumerate(MODELS, 20261127):
        model = Model(name)
        run = RUN | {"seq_len": SEQ_LENS.get(name, RUN["seq_len"]), "clip_norm": CLIP_NORMS[name]}
        golden_run.write_golden(name, seed, model.spec, run, TOKENS, model.make_weights, model.mean_loss, initial_dtype="F32",
                                script="make_layer_golden.py")
