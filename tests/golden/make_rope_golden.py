#!/usr/bin/env python3
"""Writes golden files of scaled rotary frequencies, for tests/search/shapes/rotary_frequencies_test.cc and
tests/trainer/golden_test.cc.

An independent implementation in double precision of the scalings that transformers has (modeling_rope_utils.py). It computes
wavelengths and masks of whole tensors. Shares no code with the engine. Writes beside this script:

    rope_frequencies.json                 for models and sequence lengths: the frequency of each pair of dims, and the factor of
                                          cosines and sines
    llama3_rope_*, yarn_*, longrope_*     runs of three models of make_layer_golden.py's kind, with these files' names and forms

Run it with the system's Python (Debian's python3-torch): /usr/bin/python3 tests/golden/make_rope_golden.py
"""
import json
import math

import golden_run
import make_layer_golden
import torch

LLAMA31 = {"type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
QWEN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
DEEPSEEK = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.707}
GPT_OSS = {"type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
STEEP = {"type": "yarn", "factor": 3.0, "original_max_position_embeddings": 64, "beta_fast": 2.0, "beta_slow": 1.9, "attention_factor": 0.8}
PHI = {"type": "longrope", "original_max_position_embeddings": 4096, "short_factor": [1 + i / 64 for i in range(48)],
       "long_factor": [1.5 + i * i / 40 for i in range(48)]}

# rope_theta, head_dim, max_seq_len, further fields, sequence lengths
CASES = [
    (1e4, 64, 2048, {"partial_rotary_factor": 0.5}, [128]),
    (1e6, 128, 131072, {"rope_scaling": {"type": "linear", "factor": 8.0}}, [4096]),
    (1e4, 128, 2048, {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, [1024, 2048, 5000]),
    (1e4, 80, 4096, {"rope_scaling": {"type": "dynamic", "factor": 3.0}, "partial_rotary_factor": 0.4}, [10000]),
    (1e6, 128, 131072, {"rope_scaling": QWEN}, [8192]),
    (1e4, 64, 163840, {"rope_scaling": DEEPSEEK}, [4096]),
    (150000.0, 64, 131072, {"rope_scaling": GPT_OSS}, [4096]),
    (100.0, 16, 192, {"rope_scaling": STEEP}, [64]),
    (1e4, 16, 300, {"rope_scaling": {"type": "yarn", "factor": 2.0}}, [300]),
    (1e4, 96, 131072, {"rope_scaling": PHI}, [4096, 4097]),
    (1e4, 96, 4096, {"rope_scaling": PHI}, [4096]),
    (1e4, 128, 131072, {"rope_scaling": PHI | {"factor": 16.0}, "partial_rotary_factor": 0.75}, [8192]),
    (1e4, 96, 131072, {"rope_scaling": PHI | {"attention_factor": 1.25}}, [100]),
    (5e5, 128, 131072, {"rope_scaling": LLAMA31}, [8192]),
    (5e5, 64, 131072, {"rope_scaling": LLAMA31 | {"factor": 32.0}}, [100]),
]


def rotary_dims(model):
    return round(model["head_dim"] * model.get("partial_rotary_factor", 1.0))


def frequencies(model, length):
    """Returns the angle per position of each pair of dims, and what multiplies cosines and sines."""
    dims, theta = rotary_dims(model), model["rope_theta"]
    scaling = model.get("rope_scaling", {"type": "none"})
    longest, factor = model["max_seq_len"], scaling.get("factor")
    original = scaling.get("original_max_position_embeddings", longest)
    exponent = torch.arange(0, dims, 2, dtype=torch.float64) / dims
    plain = 1 / theta ** exponent
    if scaling["type"] == "none":
        return plain, 1.0
    if scaling["type"] == "linear":
        return plain / factor, 1.0
    if scaling["type"] == "dynamic":
        grown = theta * (factor * max(length, longest) / longest - (factor - 1)) ** (dims / (dims - 2))
        return 1 / grown ** exponent, 1.0
    if scaling["type"] == "longrope":
        given = torch.tensor(scaling["long_factor" if length > original else "short_factor"], dtype=torch.float64)
        longer = factor or longest / original
        default = 1.0 if longer <= 1 else math.sqrt(1 + math.log(longer) / math.log(original))
        return 1 / (given * theta ** exponent), scaling.get("attention_factor", default)
    if scaling["type"] == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        wavelength = 2 * math.pi / plain
        smooth = (original / wavelength - low) / (high - low)
        blend = (1 - smooth) * plain / factor + smooth * plain
        is_long, is_short = wavelength > original / low, wavelength < original / high
        return torch.where(is_long, plain / factor, torch.where(is_short, plain, blend)), 1.0
    assert scaling["type"] == "yarn"

    def correction(rotations):
        return dims * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    first, last = correction(scaling.get("beta_fast", 32)), correction(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dims - 1)
    ramp = ((torch.arange(dims // 2, dtype=torch.float64) - first) / ((last - first) or 0.001)).clamp(0, 1)
    mscale = lambda m: 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0
    attention = mscale(1)
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        attention = mscale(scaling["mscale"]) / mscale(scaling["mscale_all_dim"])
    return plain / factor * ramp + plain * (1 - ramp), scaling.get("attention_factor", attention)


def write_frequencies():
    cases = []
    for theta, head_dim, longest, fields, lengths in CASES:
        model = {"layers": 1, "hidden": 4 * head_dim, "heads": 4, "head_dim": head_dim, "vocab": 16, "max_seq_len": longest,
                 "position": "rope", "rope_theta": theta} | fields
        for length in lengths:
            values, factor = frequencies(model, length)
            cases.append({"model": model, "seq_len": length, "frequencies": values.tolist(), "factor": factor})
    text = ",\n ".join(json.dumps(case) for case in cases)
    (golden_run.HERE / "rope_frequencies.json").write_text(f"[{text}]\n")


MODELS = {
    # Frequencies of all three kinds: kept, between, divided.
    "llama3_rope": {"max_seq_len": 64, "rope_scaling": {"type": "llama3", "factor": 4.0, "original_max_position_embeddings": 32,
                                                        "low_freq_factor": 0.2, "high_freq_factor": 2.0}},
    "yarn": {"rope_theta": 50.0, "partial_rotary_factor": 0.75,
             "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 2.0, "beta_slow": 0.5,
                              "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False}},
    "longrope": {"rope_scaling": {"type": "longrope", "original_max_position_embeddings": 8, "short_factor": [1.0, 1.1, 1.3, 1.5],
                                  "long_factor": [1.2, 1.7, 2.5, 4.0]}},
}
CLIP_NORMS = {"llama3_rope": 2.0, "yarn": 2.2, "longrope": 2.3}


class Model(make_layer_golden.Model):
    def __init__(self, name):
        self.name, self.spec, self.one = name, make_layer_golden.SIZES | MODELS[name], 0.0

    def rotate(self, x, kind):
        dims = rotary_dims(self.spec)
        low, high, rest = x.split([dims // 2, dims // 2, x.shape[-1] - dims], dim=-1)
        frequency, factor = frequencies(self.spec, x.shape[-2])
        angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequency
        cosine, sine = factor * angle.cos(), factor * angle.sin()
        return torch.cat([low * cosine - high * sine, high * cosine + low * sine, rest], -1)


if __name__ == "__main__":
    write_frequencies()
    for seed, name in enumerate(MODELS, 20261129):
        model = Model(name)
        golden_run.write_golden(name, seed, model.spec, make_layer_golden.RUN | {"clip_norm": CLIP_NORMS[name]}, make_layer_golden.TOKENS,
                                model.make_weights, model.mean_loss, initial_dtype="F32", script="make_rope_golden.py")
