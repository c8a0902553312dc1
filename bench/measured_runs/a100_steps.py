"""Cross-validation of calibrations: steps of GPTs on A100s, predicted by a cluster that was fitted to other ones.

The steps are those of Megatron-DeepSpeed in mixed precision, with all activations recomputed (published with vTrain,
2024). A node has 8 GPUs and 800 Gb/s to the others, which is 12.5 GB/s for each GPU.
"""
import collections
import concurrent.futures
import csv
import io
import os
import random

from measured_runs import scores

# Results depend on which steps are left out together; five draws show how much.
REPEATS = 5
VOCAB = 51200
# DeepSpeed's pipeline engine sends each rank of a tensor group's share of a message, and gathers the shares
# (deepspeed/runtime/pipe/engine.py: is_pipe_partitioned and is_grad_partitioned are on with tensor parallelism).
DEFAULT = f"recompute=full,vocab={VOCAB},precision=fp16,attention=unfused,scatter_gather=1"
COLUMNS = ("gpus", "global_batch", "micro_batch", "hidden", "heads", "layers", "seq_len", "tp", "dp", "pp", "iter_time_ms")
CLUSTER = {"device": "a100-80gb-sxm", "nodes": 1, "gpus_per_node": 8, "inter_node_bytes_per_s": 12.5e9}


def group_of(row):
    """Rows of one group differ in their plan alone."""
    return tuple(row[name] for name in ("gpus", "global_batch", "hidden", "layers", "heads", "seq_len"))


def shape_of(row):
    """Layers of one shape issue the same ops."""
    return tuple(row[name] for name in ("hidden", "micro_batch", "tp"))


def size_of(row):
    return tuple(row[name] for name in ("hidden", "layers"))


def name_of(row):
    return (f"layers={row['layers']},hidden={row['hidden']},batch={row['global_batch']},tp={row['tp']},pp={row['pp']},dp={row['dp']},"
            f"mbs={row['micro_batch']}")


def request_of(row, cluster):
    size = {name: int(row[name]) for name in ("layers", "hidden", "heads", "seq_len", "global_batch", "micro_batch", "tp", "pp", "dp", "gpus")}
    return {"id": name_of(row),
            "model": {"layers": size["layers"], "hidden": size["hidden"], "heads": size["heads"], "vocab": VOCAB, "max_seq_len": size["seq_len"]},
            "cluster": cluster | {"nodes": -(-size["gpus"] // 8), "gpus_per_node": min(size["gpus"], 8)},
            "global_batch": size["global_batch"], "seq_len": size["seq_len"], "precision": "fp16",
            "plan": {name: size[name] for name in ("tp", "pp", "dp", "micro_batch")} | {"recompute": "full", "attention": "unfused", "scatter_gather": 1}}


def predicted(program, cluster, rows):
    """Returns a pair for each row, in order. Raises ValueError for a cell that is no number."""
    pairs = []
    for row, answer in zip(rows, program.predict([request_of(row, cluster) for row in rows])):
        if "error" in answer:
            raise RuntimeError(f"the step {name_of(row)} is not predicted: {answer['error']}")
        pairs.append(scores.pair(name_of(row), float(row["iter_time_ms"]) / 1000, answer))
    return pairs


def fitted(program, rows, nodes):
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    cluster = program.calibrate(text.getvalue(), CLUSTER | {"nodes": nodes}, DEFAULT)
    cluster.pop("name", None)
    return cluster


def folds_of(rows, key, count, seed):
    """Splits the rows into folds of whole keys, in seeded random order; count None: a fold for each key."""
    keys = sorted({key(row) for row in rows})
    random.Random(seed).shuffle(keys)
    fold_of = {one: number % (count or len(keys)) for number, one in enumerate(keys)}
    folds = collections.defaultdict(list)
    for row in rows:
        folds[fold_of[key(row)]].append(row)
    if len(folds) < 2:
        raise ValueError("the measured steps are too alike to be split into folds; give more of them")
    return [folds[number] for number in sorted(folds)]


def left_out(program, rows, repeats, nodes):
    """Returns rows and pairs of each repeat, a list of folds: each fold is predicted by a cluster that was fitted to the other folds."""
    def of_fold(folds, number):
        return predicted(program, fitted(program, [row for other, some in enumerate(folds) if other != number for row in some], nodes),
                         folds[number])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        waiting = [[threads.submit(of_fold, folds, number) for number in range(len(folds))] for folds in repeats]
        results = [([row for fold in folds for row in fold], [pair for fold in fits for pair in fold.result()])
                   for folds, fits in zip(repeats, waiting)]
    assert all(len(order) == len(pairs) == len(rows) for order, pairs in results)
    return results


def summary(results, method):
    """Returns the summary of the rows and pairs of all repeats."""
    groups = collections.defaultdict(list)
    for number, (rows, pairs) in enumerate(results):
        for row, one in zip(rows, pairs):
            groups[number, group_of(row)].append(one)
    every = [one for _, pairs in results for one in pairs]
    by_repeat = [scores.score(pairs) for _, pairs in results] if len(results) > 1 else []
    spread = {f"{name}_by_repeat": [one[name] for one in by_repeat]
              for name in ("mean_absolute_error_percent", "median_absolute_error_percent", "within_interval_percent") if by_repeat}
    return {"method": method} | scores.score(every) | spread | {"regret": scores.regret(groups.values()), "worst": scores.worst(every)}


def compared(program, rows, what, nodes, say):
    """Returns the summaries for steps, by name: without a fit, and left out by each of the ways in `what`."""
    name, ways = what
    say(f"steps of {name}: without a fit")
    results = {f"{name}_without_fit": summary([(rows, predicted(program, CLUSTER, rows))], "preset a100-80gb-sxm, nothing fitted")}
    for way, key, count, words in ways:
        say(f"steps of {name}: {words}")
        seeds = range(1, REPEATS + 1) if count else (1,)  # a fold for each key is the same in each order
        method = f"{words}, {len(seeds)} times (seeds 1 to {len(seeds)})" if count else words
        results[f"{name}_{way}"] = summary(left_out(program, rows, [folds_of(rows, key, count, seed) for seed in seeds], nodes), method)
    return results


def one_node(program, rows, say):
    """Returns the summaries for steps within a node, by name."""
    return compared(program, rows, ("one_node", (
        ("leave_group_out", group_of, 3, "3 folds of groups of steps that differ in their plan alone"),
        ("leave_shape_out", shape_of, 5, "5 folds of shapes of layers (hidden, micro_batch, tp)"))), 1, say)


def many_nodes(program, rows, say):
    """Returns the summaries for steps over several nodes, by name."""
    identity = {id(row): number for number, row in enumerate(rows)}
    return compared(program, rows, ("many_nodes", (
        ("leave_rows_out", lambda row: identity[id(row)], 5, "5 folds of steps"),
        ("leave_size_out", size_of, None, "a fold for each size of model (hidden, layers)"))),
        max(int(row["gpus"]) for row in rows) // 8, say)
