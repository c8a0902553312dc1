"""Times of single ops, ours and PyTorch's, at the same shapes on random data, and each compared
with its floor."""
import json
import os

from gpu import programs, rates
from gpu.outcome import Failure, NotPossible, OutOfTime

WHOSE = "PyTorch's"
RATES = ("matmul_8192", "copy_2gib")  # the shapes from which the rates are computed


def shapes_of(context):
    with open(shapes_file(context), encoding="utf-8") as file:
        return {shape["name"]: shape for shape in json.load(file)}


def shapes_file(context):
    return os.path.join(context.root, "gpu", "op_shapes.json")


def answer_of(context, arguments, deadline):
    """Returns the answer of autocfg_gpu_ops_bench. Ops that failed are under "errors", and so is
    the program itself if it failed after its answer. Raises Failure if there is no answer."""
    done = context.run("autocfg_gpu_ops_bench", arguments, deadline)
    try:
        answer = json.loads(done.out)
    except ValueError:
        raise Failure(
            f"autocfg_gpu_ops_bench: exit code {done.code}: {done.last_words()}") from None
    if done.code != 0 and not answer["errors"]:
        words = f": {done.last_words()}" if done.err.strip() else ""
        answer["errors"]["autocfg_gpu_ops_bench"] = f"exit code {done.code} after its answer{words}"
    return answer


def ours(context, deadline, only=()):
    """Returns the answer for the shapes of the file, or for those named."""
    context.needs_gpu()
    return answer_of(context, [shapes_file(context), *([",".join(only)] if only else [])], deadline)


def last_json(text):
    """Returns the last complete line of a script's output as JSON, or None."""
    for line in reversed(text.strip().splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            continue
    return None


def torch_command(context, script, arguments):
    """As Context.command; python3 stands for an interpreter with PyTorch."""
    return context.shown(["python3", os.path.join(context.root, "bench", script), *arguments])


def torch(context, script, arguments, deadline):
    """Runs a script of bench/ with PyTorch. Returns (its last result or None; why the result is
    incomplete; its exit code)."""
    if context.python is None:
        return None, f"no Python with PyTorch was found: {context.why_no_torch}", None
    directory = os.path.join(context.root, "bench")
    environment = dict(context.plain_environment,
                       TORCHINDUCTOR_CACHE_DIR=os.path.join(context.work, "inductor"),
                       TRITON_CACHE_DIR=os.path.join(context.work, "triton"))
    try:
        done = programs.run([context.python, os.path.join(directory, script), *arguments], deadline,
                            environment, context.work)
    except OutOfTime as late:
        return last_json(late.out), str(late), None
    found = last_json(done.out)
    if done.code != 0:
        return found, f"exit code {done.code}: {done.last_words()}", done.code
    return found, "" if found is not None else f"{script} printed no JSON", done.code


def measure_rates(context, deadline):
    """Returns the measured product rate and copy bandwidth: the best of bench_ops, else our own,
    measured now and kept for other sections. Raises Failure if either was not measured or there was
    an error."""
    if not context.rates:
        answer = ours(context, deadline, RATES)
        rates_found = rates_of(context, answer)
        if answer["errors"]:
            raise Failure(errors_of(answer))
        context.rates, context.rate_of = rates_found, f"{RATES[0]}, ours"
    return context.rates


def errors_of(answer):
    return "; ".join(f"{name}: {why}" for name, why in answer["errors"].items())


def rates_of(context, answer):
    """Raises Failure if one of the two rates was not measured."""
    shapes, results = shapes_of(context), answer["ops"]
    for name in RATES:
        if name not in results:
            raise Failure(f"{name} was not measured: "
                          f"{answer.get('errors', {}).get(name, 'it did not run')}")
    product, copy = (shapes[name] for name in RATES)
    flops = 2.0 * product["m"] * product["n"] * product["k"]
    return {"matmul_flops_per_s": flops / results[RATES[0]]["product_s"]["median_s"],
            "copy_bytes_per_s": 2.0 * copy["bytes"] / results[RATES[1]]["copy_s"]["median_s"]}


def compare(entry, floor, torch_floor):
    """Adds the ratios to a shape's entry."""
    for part, timing in entry.get("ours", {}).items():
        if part in floor:
            entry.setdefault("floor", {})[part] = floor[part]
            entry.setdefault("ours_over_floor", {})[part] = timing["median_s"] / floor[part]
        other = entry.get("torch", {}).get(part)
        if other:
            entry.setdefault("ours_over_torch", {})[part] = timing["median_s"] / other["median_s"]
            if part in torch_floor:
                over = entry.setdefault("torch_over_floor", {})
                over[part] = other["median_s"] / torch_floor[part]


def take_rates(context, figures, best):
    """Makes the best rates those of all sections."""
    by_us = best["matmul_flops_per_s"] == figures["rates"]["matmul_flops_per_s"]
    context.rates = best
    context.rate_of = f"{RATES[0]}, {'ours' if by_us else WHOSE}, of bench_ops"
    figures["best_rates"] = {**best, "of": context.rate_of}


def take_kept_rates(context, figures):
    """Takes the rates from figures of an earlier call."""
    best = dict(figures.get("best_rates", {}))
    if best:
        context.rate_of, context.rates = best.pop("of"), best


def run(context, figures, deadline):
    context.needs_gpu()
    shapes = shapes_of(context)
    answer = ours(context, deadline)
    # Reported at once, because the following part may not end.
    figures["choices"] = answer["choices"]
    figures["commands"] = {"ours": context.command("autocfg_gpu_ops_bench", [shapes_file(context)]),
                           "torch": torch_command(
                               context, "gpu_ops_torch.py", [shapes_file(context)])}
    for name, shape in shapes.items():
        figures[name] = {"shape": shape,
                         **({"ours": answer["ops"][name]} if name in answer["ops"]
                            else {"error": answer["errors"].get(name)})}
    best = figures["rates"] = rates_of(context, answer)
    theirs, why, _ = torch(context, "gpu_ops_torch.py", [shapes_file(context)], deadline)
    if theirs is not None:
        figures["torch"] = theirs["torch"]
        for name, timing in theirs["ops"].items():
            figures[name]["torch"] = timing
        figures["torch_errors"] = theirs["errors"]
        if all(name in theirs["ops"] for name in RATES):
            figures["torch_rates"] = rates_of(context, theirs)
            # The device's rate is the best that either side reached.
            best = {name: max(rate, best[name]) for name, rate in figures["torch_rates"].items()}
    take_rates(context, figures, best)
    for name, shape in shapes.items():
        compare(figures[name], rates.floors(shape, **best),
                rates.floors(shape, **best, whose="torch"))
    if answer["errors"]:
        raise Failure(errors_of(answer))
    if theirs is None or why:
        figures["torch_not_compared"] = why
        raise NotPossible(f"no full comparison with PyTorch: {why}; only our own times were "
                          "measured")
