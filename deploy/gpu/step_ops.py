"""The time of every op of a step of both benchmark models, each alone at its own shape, over its
floor. Shows where a step's time goes, and which op has the most to gain."""
from gpu import bench_ops, bench_steps
from gpu.context import seconds_left
from gpu.outcome import Failure, OutOfTime

CAUSAL = 0.5  # of attention's FLOPs, which count the full scores
ATTENTION = ("attention_", "unfused_attention_")


def floor_s(op, rates):
    """Returns the lower bound of an op's time: FLOPs over the measured rate of products, or bytes
    over the measured copy bandwidth, each operand moved once."""
    flops = op["flops"] * (CAUSAL if op["op"].startswith(ATTENTION) else 1.0)
    return max(flops / rates["matmul_flops_per_s"], op["bytes"] / rates["copy_bytes_per_s"])


def table(ops, rates):
    """Returns the ops that were timed, those that take most of a step first, with floors and
    totals."""
    rows = []
    for op in ops:
        if "median_s" in op:
            row = dict(op, floor_s=floor_s(op, rates), a_step_s=op["times_a_step"] * op["median_s"])
            rows.append(
                dict(row, over_floor=row["median_s"] / row["floor_s"] if row["floor_s"] else None))
    return sorted(rows, key=lambda row: -row["a_step_s"])


def measure(context, case, entry, rates, deadline):
    model, seq_len = context.model(case["model"]), case["seq_len"]
    chosen = bench_steps.choose_micro_batch(context, model, seq_len, deadline)
    if chosen is None:
        raise Failure("micro batch 1 does not fit comfortably")
    arguments = ["--step", model, str(chosen[0]), str(seq_len)]
    entry.update(command=context.command("autocfg_gpu_ops_bench", arguments), micro_batch=chosen[0])
    answer = bench_ops.answer_of(context, arguments, deadline)
    rows = table(answer["ops"], rates)
    entry.update(step_s=sum(row["a_step_s"] for row in rows),
                 floor_of_step_s=sum(row["times_a_step"] * row["floor_s"] for row in rows),
                 ops=rows, errors=answer["errors"], choices=answer["choices"])
    if answer["errors"]:
        raise Failure(bench_ops.errors_of(answer))


def run(context, figures, deadline):
    context.needs_gpu()
    rates = figures["rates"] = bench_ops.measure_rates(context, deadline)
    cases, wrong = bench_steps.cases(context), []
    for index, case in enumerate(cases):
        share = seconds_left(deadline) / (len(cases) - index)
        stop_at = deadline - seconds_left(deadline) + share
        try:
            measure(context, case, figures.setdefault(case["model"], {}), rates, stop_at)
        except (Failure, OutOfTime) as why:
            wrong.append(f"{case['model']}: {why}")
    if wrong:
        raise Failure("; ".join(wrong))
