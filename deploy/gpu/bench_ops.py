"""Times of single ops, ours and PyTorch's, at the same shapes on random data, and each against its floor."""
import json
import os

from gpu import programs, rates
from gpu.report import Failure, NotPossible


def shapes_file(context):
    return os.path.join(context.root, "gpu", "op_shapes.json")


def ours(context, deadline, only=None):
    """{name: {part: {"median_s", ...}}}; raises NotPossible where there is no GPU, Failure where the program fails."""
    context.needs_gpu()
    done = context.run("autocfg_gpu_ops_bench", [shapes_file(context)] + ([",".join(only)] if only else []), deadline)
    if done.code != 0:
        raise Failure(f"autocfg_gpu_ops_bench: exit code {done.code}: {done.last_words()}")
    return json.loads(done.out)["ops"]


def torch(context, script, arguments, deadline):
    """What a script of bench/ prints with PyTorch; (None, why) where there is no PyTorch that sees the GPU."""
    if context.python is None:
        return None, "no Python with PyTorch was found"
    directory = os.path.join(context.root, "bench")
    done = programs.run([context.python, os.path.join(directory, script), *arguments], deadline,
                        dict(context.plain_environment, TORCHINDUCTOR_CACHE_DIR=os.path.join(context.work, "inductor"),
                             TRITON_CACHE_DIR=os.path.join(context.work, "triton")), context.work)
    if done.code != 0:
        return None, f"exit code {done.code}: {done.last_words()}"
    return json.loads(done.out.strip().splitlines()[-1]), ""


def measure_rates(context, deadline):
    """The measured product rate and copy bandwidth, once for all sections."""
    if not context.rates:
        found = ours(context, deadline, ["matmul_8192", "copy_2gib"])
        context.rates = rates_of(context, found)
    return context.rates


def rates_of(context, results):
    with open(shapes_file(context), encoding="utf-8") as file:
        shapes = {shape["name"]: shape for shape in json.load(file)}
    product, copy = shapes["matmul_8192"], shapes["copy_2gib"]
    return {"matmul_flops_per_s": 2.0 * product["m"] * product["n"] * product["k"] / results["matmul_8192"]["product_s"]["median_s"],
            "copy_bytes_per_s": 2.0 * copy["bytes"] / results["copy_2gib"]["copy_s"]["median_s"]}


def run(context, figures, deadline):
    context.needs_gpu()
    with open(shapes_file(context), encoding="utf-8") as file:
        shapes = json.load(file)
    results = ours(context, deadline)
    context.rates = rates_of(context, results)
    figures["rates"] = dict(context.rates)
    theirs, why = torch(context, "gpu_ops_torch.py", [shapes_file(context)], deadline)
    if theirs is None:
        figures["torch"] = f"not compared: {why}"
    else:
        figures["torch"] = theirs["torch"]
        figures["torch_rates"] = rates_of(context, theirs["ops"])
        # The device's rate is the best that anybody reached.
        for name, rate in figures["torch_rates"].items():
            context.rates[name] = max(context.rates[name], rate)
    for shape in shapes:
        entry = figures.setdefault(shape["name"], {"shape": shape, "ours": results[shape["name"]]})
        floor = rates.floors(shape, **context.rates)
        if theirs is not None:
            entry["torch"] = theirs["ops"][shape["name"]]
        for part, timing in results[shape["name"]].items():
            if part in floor:
                entry.setdefault("floor", {})[part] = floor[part]
                entry.setdefault("ours_over_floor", {})[part] = timing["median_s"] / floor[part]
            other = entry.get("torch", {}).get(part)
            if other:
                entry.setdefault("ours_over_torch", {})[part] = timing["median_s"] / other["median_s"]
    if theirs is None:
        raise NotPossible(f"no comparison with PyTorch: {why}; our own times were measured")
