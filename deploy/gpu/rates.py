"""The device's measured peak rates, and the lower bounds of op times that follow from them."""

# Bytes that AdamW must move per element. Ours: bf16 weights written, fp32 gradients read, fp32
# master weights and both moments read and written. PyTorch's (fp32 weights): no second copy is
# written.
ADAMW_BYTES = {"ours": 2 + 4 + 3 * 8, "torch": 4 + 3 * 8}
BF16 = 2


def floors(shape, matmul_flops_per_s, copy_bytes_per_s, whose="ours"):
    """Returns {part: seconds}, of "ours" or "torch": causal FLOPs over the measured product rate,
    or bytes (each operand once) over the measured copy bandwidth."""
    kind = shape["kind"]
    if kind == "attention":
        forward = 4.0 * shape["batch"] * shape["heads"] * shape["seq"] ** 2 * shape["head_dim"] / 2
        return {"forward_s": forward / matmul_flops_per_s,
                "backward_s": 2.5 * forward / matmul_flops_per_s}
    if kind == "layer_norm":
        row = shape["tokens"] * shape["width"] * BF16
        return {"forward_s": 2 * row / copy_bytes_per_s, "backward_s": 3 * row / copy_bytes_per_s}
    if kind == "cross_entropy":
        return {"both_s": 2 * shape["tokens"] * shape["vocab"] * BF16 / copy_bytes_per_s}
    if kind == "adamw":
        return {"step_s": ADAMW_BYTES[whose] * shape["elements"] / copy_bytes_per_s}
    return {}


def model_flops(model, tokens, seq_len):
    """Returns the FLOPs of a step, forward and backward, without recomputation: (with full
    attention scores, with the causal half of them); see search/plan/model_spec.h."""
    hidden, layers, heads = model["hidden"], model["layers"], model["heads"]
    head_dim = model.get("head_dim", hidden // heads)
    kv_heads, ffn = model.get("kv_heads", heads), model.get("ffn_hidden", 4 * hidden)
    gated = model.get("activation", "gelu") in ("swiglu", "geglu")
    width = heads * head_dim
    weights = hidden * (width + 2 * kv_heads
                        * head_dim) + width * hidden + hidden * ffn * (3 if gated else 2)
    products = 6.0 * tokens * (layers * weights + hidden * model["vocab"])
    attention = 12.0 * tokens * layers * seq_len * width
    return products + attention, products + attention / 2
