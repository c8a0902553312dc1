"""Peak memory that frameworks measured, and its predictions."""
import statistics

from measured_runs import scores
from measured_runs.published import Unusable, whole, zero_stage_of
from measured_runs.sources import GIB, cluster_of, source_of

MEGATRON_COLUMNS = ("test_case", "environment", "gpu", "gpus", "gpus_per_node", "TP", "PP", "CP", "DP", "vpp_layers_per_stage", "vpp_stages",
                    "pp_layout", "SP", "micro_batch", "global_batch", "seq_len", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "swiglu",
                    "vocab", "make_vocab_divisible_by", "untied", "mla", "experts", "bf16", "fp8", "dist_opt", "mfsdp", "recompute_granularity",
                    "attention_backend", "transformer_impl", "overlap_grad_reduce", "overlap_param_gather", "optimizer",
                    "mem_max_allocated_GiB", "iter_time_median_s", "extra_args")
GPT2_VOCAB = 50257  # of GPT2BPETokenizer, the default of pretrain_gpt.py
# Of tests whose options the table leaves out (model_config.yaml of each): layers of the stages, and what the cross-entropy keeps of each logit.
SPLITS = {"uneven_pipeline": "2+4+4+2"}
ENGINES = {"cross_entropy_loss_fusion": "megatron:logit_bytes=8"}
DROPOUT = 0.1       # the default of --hidden-dropout and --attention-dropout


def megatron_request(row):
    """Converts a row of Megatron-LM's functional tests. Raises Unusable."""
    if row["gpus"] == "":
        raise Unusable("the number of GPUs is not published")
    if row["CP"] != "1":
        raise Unusable("context parallelism")
    if row["experts"] or row["mla"] == "1":
        raise Unusable("mixture of experts or latent attention")
    if "hybrid" in row["extra_args"]:
        raise Unusable("other layers than attention")
    if row["optimizer"] != "adam":
        raise Unusable(f"the optimizer {row['optimizer']}")
    if row["pp_layout"]:
        raise Unusable("a layout of its own")
    cluster = cluster_of(row["gpu"], whole(row, "gpus"), whole(row, "gpus_per_node"), source_of("Megatron-LM"))
    if cluster is None:
        raise Unusable(f"the figures of {row['gpu']} are not known")
    layers, hidden, pp = whole(row, "layers"), whole(row, "hidden"), whole(row, "PP")
    gated = row["swiglu"] == "1"
    model = {"layers": layers, "hidden": hidden, "heads": whole(row, "heads"), "kv_heads": whole(row, "kv_heads", whole(row, "heads")),
             "ffn_hidden": whole(row, "ffn_hidden", max(hidden * 8 // 3 // 64, 1) * 64 if gated else 4 * hidden),
             "vocab": whole(row, "vocab", GPT2_VOCAB), "vocab_multiple": whole(row, "make_vocab_divisible_by", 128),
             "max_seq_len": whole(row, "seq_len"), "tied_embeddings": row["untied"] != "1", "dropout": DROPOUT}
    if gated:
        model["activation"] = "swiglu"
    stages = whole(row, "vpp_stages", 1)
    if row["vpp_layers_per_stage"]:
        stages = layers // pp // whole(row, "vpp_layers_per_stage")
    unfused = row["attention_backend"] == "unfused" or row["transformer_impl"] == "local"
    plan = {"tp": whole(row, "TP"), "pp": pp, "dp": whole(row, "DP"), "micro_batch": whole(row, "micro_batch"), "virtual_stages": stages,
            "schedule": "interleaved" if stages > 1 else "1f1b", "recompute": row["recompute_granularity"] or "none",
            "attention": "unfused" if unfused else "fused", "sequence_parallel": whole(row, "SP"),
            "zero_stage": 3 if row["mfsdp"] == "1" else whole(row, "dist_opt"),
            "grad_overlap": whole(row, "overlap_grad_reduce"), "param_overlap": whole(row, "overlap_param_gather")}
    plan |= {"split": split for part, split in SPLITS.items() if part in row["test_case"]}
    engine = next((engine for part, engine in ENGINES.items() if part in row["test_case"]), "megatron")
    precision = "fp8" if row["fp8"] else "bf16" if row["bf16"] == "1" else "fp16:grads=fp16"
    return {"model": model, "cluster": cluster, "global_batch": whole(row, "global_batch"), "seq_len": whole(row, "seq_len"),
            "precision": precision, "engine": engine, "plan": plan}


NANOTRON_COLUMNS = ("row_id", "model", "status", "after_pp_fix", "gpu", "gpus", "gpus_per_node", "TP", "PP", "DP", "SP", "zero", "micro_batch",
                    "global_batch", "seq_len", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab", "peak_reserved_GB")


def nanotron_request(row):
    """Converts a row of the runs that nanotron's authors published. Raises Unusable."""
    # The runs before a fault of the pipeline was mended took up to a hundred times as long; those that ran out did not run.
    if row["status"] == "Success" and row["PP"] != "1" and row["after_pp_fix"] != "True":
        raise Unusable("a pipeline before its fault was mended")
    gpus = whole(row, "gpus")
    cluster = cluster_of(row["gpu"], gpus, whole(row, "gpus_per_node"), source_of("nanotron"))
    if cluster is None:
        raise Unusable(f"the figures of {row['gpu']} are not known")
    layers, pp = whole(row, "layers"), whole(row, "PP")
    model = {"layers": layers, "hidden": whole(row, "hidden"), "heads": whole(row, "heads"), "kv_heads": whole(row, "kv_heads"),
             "ffn_hidden": whole(row, "ffn_hidden"), "vocab": whole(row, "vocab"), "max_seq_len": whole(row, "seq_len"), "activation": "swiglu",
             "norm": "rmsnorm", "position": "rope", "bias": False,
             # Of the models, only the sum of this one is that of tied embeddings.
             "tied_embeddings": "1.34B" in row["model"]}
    plan = {"tp": whole(row, "TP"), "pp": pp, "dp": whole(row, "DP"), "micro_batch": whole(row, "micro_batch"),
            "sequence_parallel": whole(row, "SP"), "zero_stage": zero_stage_of(row["zero"])}
    if layers % pp != 0:
        plan["split"] = "auto"
    return {"model": model, "cluster": cluster, "global_batch": whole(row, "global_batch"), "seq_len": whole(row, "seq_len"),
            "precision": "bf16", "engine": "nanotron", "plan": plan}


def compare_nanotron(program, rows):
    """Predicts the runs of nanotron's authors: what the allocator held on the first rank of those that ran, which alone
    writes it, divided by 2^30 (src/nanotron/helpers.py), and whether all fit."""
    left_out, asked = {}, []
    for row in rows:
        try:
            asked.append((row, nanotron_request(row)))
        except Unusable as reason:
            left_out.setdefault(str(reason), []).append(row["row_id"])
    runs, right = [], {"Success": [], "OOM": []}
    for (row, _), answer in zip(asked, program.predict([request for _, request in asked])):
        if "error" in answer:
            left_out.setdefault(answer["error"].split(";")[0].split(":")[-1].strip(), []).append(row["row_id"])
            continue
        right[row["status"]].append(answer["feasible"] == (row["status"] == "Success"))
        if row["status"] == "Success":
            memory, ranks = answer["memory_bytes"], answer["allocated_bytes_by_pipeline_rank"]
            reserved = memory["reserved"] * ranks[0] / max(ranks)
            runs.append((row["row_id"], float(row["peak_reserved_GB"]) * GIB, reserved))
    return {"left_out": {reason: len(names) for reason, names in left_out.items()}, "reserved": summary(runs),
            "predicted_to_fit": {name: {"rows": len(of), "right_percent": scores.percent(statistics.mean(of))} for name, of in right.items() if of}}


def summary(runs):
    """Returns the errors of allocated bytes: of all runs, and the worst ones. `runs`: (name, measured, predicted)."""
    errors = sorted(((predicted / measured - 1, name, measured, predicted) for name, measured, predicted in runs), key=lambda one: -abs(one[0]))
    absolute = [abs(error) for error, *_ in errors]
    return {"rows": len(errors), "median_absolute_error_percent": scores.percent(statistics.median(absolute)),
            "90_percent_within_percent": scores.percent(absolute[len(absolute) // 10]),
            "median_error_percent": scores.percent(statistics.median(error for error, *_ in errors)),
            "worst": [{"run": name, "measured_gb": round(measured / 1e9, 3), "predicted_gb": round(predicted / 1e9, 3),
                       "error_percent": scores.percent(error)} for error, name, measured, predicted in errors[:scores.WORST]]}


def compare(program, rows):
    """Predicts the rows of Megatron-LM's functional tests: those of its model of 12 layers of 512, and the others. Their
    figures are of the last rank, which alone writes them (megatron/training/global_vars.py)."""
    left_out, named = {}, []
    for row in rows:
        name = f"{row['test_case']} ({row['environment']}, {row['gpu']})"
        try:
            named.append((name, row, megatron_request(row)))
        except Unusable as reason:
            left_out.setdefault(str(reason), []).append(name)
    runs, timed = {"tiny": [], "others": []}, []
    for (name, row, request), answer in zip(named, program.predict([request for *_, request in named])):
        if "error" in answer:
            left_out.setdefault(answer["error"].split(";")[0], []).append(name)
            continue
        last = answer["allocated_bytes_by_pipeline_rank"][-1]
        size = "tiny" if (row["layers"], row["hidden"]) == ("12", "512") else "others"
        runs[size].append((name, float(row["mem_max_allocated_GiB"]) * GIB, last))
        if row["iter_time_median_s"]:
            timed.append(scores.pair(name, float(row["iter_time_median_s"]), answer))
    steps = {"step_time": scores.score(timed)} if timed else {}
    return {"left_out": {reason: len(names) for reason, names in left_out.items()}} | {size: summary(of) for size, of in runs.items() if of} | steps
