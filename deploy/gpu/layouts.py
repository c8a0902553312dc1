"""Every schedule, parallel axis and kind of attention on the GPU: one rank, and 2 and 4 ranks that
share it, must give the losses of one rank without recomputation and with fused attention."""
import math

from gpu import dead_rank, programs, repeat
from gpu.context import TrainFailed, worst_relative
from gpu.outcome import Failure, NotPossible, OutOfTime

MODELS = ("gpt2-check", "llama-check")
STEPS, GLOBAL_BATCH = 3, 8
WITHIN = {"fp32": 1e-4, "bf16": 2e-2}  # relative to one rank of the same precision
ONE_RANK = ("tp=1,pp=1,dp=1,mbs=1,recompute=full", "tp=1,pp=1,dp=1,mbs=1,recompute=full:1",
            "tp=1,pp=1,dp=1,mbs=1,attention=unfused")
# The most error-prone plans come first; plans that are not reached in time are named in the report.
RANKS = ("tp=2,mbs=1", "tp=2,mbs=1,sp=1", "dp=2,mbs=1", "pp=2,mbs=1,schedule=1f1b",
         "tp=2,pp=2,mbs=1,schedule=1f1b", "tp=2,dp=2,mbs=1", "pp=2,dp=2,mbs=1,schedule=1f1b",
         "pp=2,vpp=2,mbs=1,schedule=interleaved", "pp=4,mbs=1,schedule=gpipe",
         "pp=4,vpp=2,mbs=1,schedule=interleaved", "tp=4,mbs=1",
         "tp=4,mbs=2,sp=1,recompute=full:1", "dp=4,mbs=1",
         "pp=4,mbs=1,schedule=1f1b,split=3+2+2+1",
         "tp=2,pp=2,mbs=1,schedule=1f1b,scatter_gather=1",
         "tp=2,pp=2,mbs=1,schedule=zb-h1,recompute=full:1",
         "pp=2,mbs=1,schedule=gpipe,split=5+3,recompute=full:1",
         "tp=2,pp=2,vpp=2,mbs=1,schedule=interleaved,recompute=full",
         "pp=2,dp=2,mbs=1,schedule=gpipe,recompute=full", "tp=2,dp=2,mbs=2,recompute=full:1",
         "pp=4,mbs=1,schedule=1f1b", "pp=2,mbs=1,schedule=gpipe",
         "tp=2,pp=2,mbs=1,schedule=1f1b,recompute=selective:core_attn+mlp+norm,attention=unfused",
         "tp=2,mbs=1,tp_overlap=4", "tp=2,mbs=1,sp=1,tp_overlap=2", "dp=2,mbs=1,zero=1",
         "dp=2,mbs=1,zero=3", "dp=4,mbs=1,zero=2,dp_shard=2",
         "pp=2,mbs=1,schedule=1f1b,p2p_overlap=1", "dp=2,mbs=1,grad_overlap=1",
         "dp=2,mbs=1,zero=1,grad_overlap=1,param_overlap=1",
         "dp=2,mbs=1,zero=3,grad_overlap=1,param_overlap=1",
         "pp=2,dp=2,mbs=1,schedule=1f1b,zero=1,grad_overlap=1,param_overlap=1",
         "pp=2,dp=2,mbs=1,schedule=1f1b,zero=3,grad_overlap=1,param_overlap=1")
BF16 = ("tp=2,pp=2,mbs=1,schedule=1f1b", "tp=2,pp=2,mbs=1,schedule=1f1b,sp=1",
        "pp=2,dp=2,mbs=1,schedule=1f1b",
        "tp=2,mbs=1,recompute=selective:core_attn+act+norm,attention=unfused",
        "tp=2,mbs=1,tp_overlap=4", "dp=2,mbs=1,zero=3",
        "dp=2,mbs=1,zero=1,grad_overlap=1,param_overlap=1")


def cases():
    """Returns [(model, plan, precision)]."""
    found = [(model, plan, "fp32") for plan in [*RANKS[:7], *ONE_RANK, *RANKS[7:]]
             for model in MODELS]
    return found + [(model, plan, "bf16") for plan in BF16 for model in MODELS]


# Plans over NCCL, one of each kind of communication. Each takes some seconds alone on the GPU: the
# kernels of ranks that share it wait for their turns. Several jobs at once made no progress in 17 s
# (H100, 4 jobs of 2 ranks).
OVER_NCCL = ("tp=2,mbs=1,sp=1", "pp=2,mbs=1,schedule=1f1b",
             "dp=2,mbs=1,zero=3,grad_overlap=1,param_overlap=1", "tp=2,mbs=1,tp_overlap=4",
             "tp=2,pp=2,mbs=1,schedule=1f1b", "pp=2,vpp=2,mbs=1,schedule=interleaved",
             "pp=2,dp=2,mbs=1,schedule=1f1b,zero=1,grad_overlap=1,param_overlap=1",
             "dp=4,mbs=1,zero=2,dp_shard=2", "tp=2,pp=2,mbs=1,schedule=1f1b,scatter_gather=1",
             "pp=2,mbs=1,schedule=1f1b,p2p_overlap=1")


def nccl_cases():
    """Returns the plans over NCCL, alternating models."""
    return [(MODELS[index % len(MODELS)], plan, "fp32") for index, plan in enumerate(OVER_NCCL)]


def train(context, model, plan, precision, deadline, device="cuda", **variables):
    return context.train(context.model(model), plan, device, deadline, precision, STEPS,
                         GLOBAL_BATCH, extra=("--seed", str(context.seed)), **variables)


def references(context, deadline, device="cuda"):
    """Returns the losses of one rank by (model, precision); computed once for all sections."""
    wanted = [(model, precision) for model in MODELS
              for precision in (WITHIN if device == "cuda" else ("fp32",))]
    missing = [key for key in wanted if (device, *key) not in context.reference]
    for key, result in programs.in_parallel(context.jobs, missing,
                                            lambda key: train(
                                                context, key[0], "mbs=1", key[
                                                    1], deadline, device)):
        if isinstance(result, Exception):
            raise result
        context.reference[(device, *key)] = result["losses"]
    return {key: context.reference[(device, *key)] for key in wanted}


def compare(context, figures, deadline, selected, jobs, **variables):
    """Runs the cases, `jobs` at a time; raises Failure that names the cases that differ or fail."""
    one_rank = references(context, deadline)
    wrong, late = [], []
    runs = figures.setdefault("runs", {})

    def work(case):
        model, plan, precision = case
        return train(context, model, plan, precision, deadline, **variables)

    def note(case, result):
        model, plan, precision = case
        name = f"{model} {precision} {plan}"
        if isinstance(result, OutOfTime):
            late.append(name)
            runs[name] = {"outcome": "not run: no time"}
            return
        if isinstance(result, Exception):
            wrong.append(f"{name}: {result}")
            runs[name] = {"outcome": f"failed: {result}"}
            return
        worst = worst_relative(result["losses"], one_rank[(model, precision)])
        good = worst <= WITHIN[precision]
        runs[name] = {"outcome": "passed" if good else "failed",
                      "worst_relative_difference_of_losses": worst, "allowed": WITHIN[precision],
                      "planned_memory_bytes": result["planned_memory_bytes"],
                      "peak_memory_bytes": result["peak_memory_bytes"],
                      "device_overhead_bytes": result["device_overhead_bytes"],
                      "wall_s": result["wall_s"], "command": result["command"]}
        if not good:
            programs.note_suspect(result["run"])
            wrong.append(f"{name}: losses differ from one rank's by {worst:.2e}")

    for case, result in programs.in_parallel(jobs, selected, work):
        note(case, result)
    figures["cases_passed"] = sum(entry["outcome"] == "passed" for entry in runs.values())
    figures["cases"] = len(selected)
    if wrong:
        raise Failure(f"{len(wrong)} of {len(selected)}: "
                      f"{'; '.join(wrong[:4])}{'; ...' if len(wrong) > 4 else ''}")
    if late:
        raise OutOfTime(f"{len(late)} of {len(selected)} cases were not run: {', '.join(late[:4])}")


def host(context, figures, deadline):
    """Uses host communication, which always lets several ranks share one GPU."""
    if context.gpu:
        ours = references(context, deadline, "cpu")
        figures["cpu_losses"] = {f"{model} {precision}": losses for (model, precision),
                                 losses in ours.items()}
        if not all(loss is not None and math.isfinite(loss) for losses in ours.values()
                   for loss in losses):
            raise Failure("the CPU's losses are not finite")
    context.needs_gpu()
    compare(context, figures, deadline, cases(), context.jobs, AUTOCFG_GPU_TRANSPORT="host")


def nccl(context, figures, deadline):
    """Uses NCCL, with each rank presented as a separate host, and kills one of the ranks. Not
    possible if NCCL refuses that."""
    context.needs_gpu()
    variables = {"AUTOCFG_GPU_TRANSPORT": "nccl", "AUTOCFG_NCCL_SHARE_GPU": "1"}
    try:
        train(context, MODELS[0], "dp=2,mbs=1", "fp32", deadline, **variables)
    except TrainFailed as failed:
        if failed.run:
            repeat.nccl_refusal(context, figures, failed.run, deadline)
        raise NotPossible(f"NCCL among ranks that share a GPU: {failed.words}") from None
    except OutOfTime as late:
        raise NotPossible(
            f"NCCL among ranks that share a GPU did not finish a first run: {late}") from None
    wrong = [
        f"a rank dies: {why}" for why in dead_rank.kill_each(
            context, figures.setdefault("a_rank_dies", {}), deadline, **variables)]
    try:
        compare(context, figures, deadline, nccl_cases(), 1, **variables)
    except (Failure, OutOfTime) as why:
        if not wrong:
            raise
        wrong.append(str(why))
    if wrong:
        raise Failure("; ".join(wrong))
