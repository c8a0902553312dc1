"""Repeats the first test or run that fails, so that the report says more than that it failed. First
with the host waiting for every launch, so that an error belongs to the op that caused it. Then
under memcheck, which names the kernel, the thread and the address. The outcome stays what it
was."""
from gpu import compute_sanitizer
from gpu.context import seconds_left
from gpu.outcome import OutOfTime

MOST_S = 60
FIRST_LINES = 60  # the first errors are the cause, later ones follow from them
AWAITED = {"CUDA_LAUNCH_BLOCKING": "1", "AUTOCFG_CUDA_SYNC": "ops"}
NCCL_LOG = {"NCCL_DEBUG": "INFO"}
NO_MEMCHECK = "compute-sanitizer is not installed on this machine"


def repeated(context, figures, name, program, arguments, deadline, **variables):
    """Runs the program; records in `figures` how it ended and its first lines. The files of whole
    outputs have the rest."""
    words = [*(f"{key}={value}" for key, value in variables.items()), program, *arguments]
    entry = figures[name] = {"command": context.shown(words)}
    try:
        done = context.run(program, arguments, deadline, MOST_S, noted=False, **variables)
    except OutOfTime as late:
        entry["outcome"], text = str(late), f"{late.err}\n{late.out}"
    else:
        entry["outcome"], text = f"exit code {done.code}", f"{done.err}\n{done.out}"
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    entry["first_lines"] = lines[:FIRST_LINES]


def failed_test(context, figures, test, deadline):
    """Repeats one test of gpu_test. `figures` gets "test", "blocking launches" and "memcheck"."""
    figures["test"] = test
    context.repeated = True
    chosen = [f"--gtest_filter={test}"]
    repeated(context, figures, "blocking launches", "gpu_test", chosen, deadline, **AWAITED)
    program = compute_sanitizer.find()
    if program is None:
        figures["memcheck"] = NO_MEMCHECK
        return
    command = ["--tool", "memcheck", *compute_sanitizer.OURS, context.program("gpu_test"), *chosen]
    repeated(context, figures, "memcheck", program, command, deadline)


def failed_run(context, figures, run, deadline):
    """Repeats a run of `autocfg train` that ended badly or gave wrong results, unless a test or run
    has been repeated before. `run`: Context.train's. `figures` gets "repeated": the run where the
    host waits for each op, with NCCL's own log if the run used NCCL, and the run under memcheck."""
    if context.repeated or seconds_left(deadline) <= 0:
        return
    context.repeated = True
    found = figures["repeated"] = {}
    variables = run["variables"]
    if variables.get("AUTOCFG_GPU_TRANSPORT") == "nccl":
        variables = {**variables, **NCCL_LOG}
    repeated(context, found, "each op awaited", "autocfg", run["arguments"], deadline,
             **{**variables, **AWAITED})
    program = compute_sanitizer.find()
    if program is None:
        found["memcheck"] = NO_MEMCHECK
        return
    command = ["--tool", "memcheck", "--target-processes", "all", *compute_sanitizer.OURS,
               context.program("autocfg"), *run["arguments"]]
    if seconds_left(deadline) > 0:
        repeated(context, found, "memcheck", program, command, deadline, **variables)


def nccl_refusal(context, figures, run, deadline):
    """Repeats a run that NCCL refused, with NCCL's own log."""
    repeated(context, figures, "with NCCL's log", "autocfg", run["arguments"], deadline,
             **{**run["variables"], **NCCL_LOG})
