"""Weights that a GPU's run saves start a run on the CPU, and give the same losses there."""
import os

from gpu.context import worst_relative
from gpu.report import Failure

MODELS, PLAN, STEPS, GLOBAL_BATCH = ("gpt2-check", "llama-check"), "mbs=4", 3, 8
WITHIN = {"fp32": 1e-4, "bf16": 2e-2}


def run(context, figures, deadline):
    context.needs_gpu()
    wrong = []
    for model in MODELS:
        for precision, within in WITHIN.items():
            file = os.path.join(context.work, f"{model}-{precision}.safetensors")

            def train(device, kind, *extra):
                return context.train(context.model(model), PLAN, device, deadline, kind, STEPS, GLOBAL_BATCH,
                                     extra=("--seed", str(context.seed), *extra))

            first = train("cuda", precision, "--save", file)
            after = {device: train(device, precision if device == "cuda" else "fp32", "--init", file)["losses"] for device in ("cuda", "cpu")}
            worst = worst_relative(after["cuda"], after["cpu"])
            figures[f"{model} {precision}"] = {"losses_before": first["losses"], "losses_on_gpu": after["cuda"], "losses_on_cpu": after["cpu"],
                                               "worst_relative_difference_of_losses": worst, "allowed": within, "file_bytes": os.path.getsize(file)}
            os.remove(file)
            if not worst <= within:
                wrong.append(f"{model} in {precision}: losses after loading differ by {worst:.2e}")
            if not after["cpu"][0] < first["losses"][0]:
                wrong.append(f"{model} in {precision}: the CPU starts at loss {after['cpu'][0]}, not below the {first['losses'][0]} that training began with")
    if wrong:
        raise Failure("; ".join(wrong))
