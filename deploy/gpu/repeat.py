"""Repeats a failed test of gpu_test so that the report says more than that it failed. First with launches
that block, so that an error belongs to the launch that caused it. Then under memcheck, which names the kernel,
the thread and the address. The outcome of the test stays what it was."""
from gpu import compute_sanitizer
from gpu.outcome import OutOfTime

MOST_S = 60
FIRST_LINES = 60  # of memcheck's output: the first errors are the cause, later ones follow from them


def repeated(context, figures, name, program, arguments, deadline, **variables):
    """Runs the program; records in `figures` how it ended and its first lines."""
    entry = figures[name] = {"command": context.shown([*(f"{key}={value}" for key, value in variables.items()), program, *arguments])}
    try:
        done = context.run(program, arguments, deadline, MOST_S, **variables)
    except OutOfTime as late:
        entry["outcome"], text = str(late), late.out
    else:
        entry["outcome"], text = f"exit code {done.code}", f"{done.out}\n{done.err}"
    entry["first_lines"] = [line.rstrip() for line in text.splitlines() if line.strip()][:FIRST_LINES]


def failed_test(context, figures, test, deadline):
    """Repeats one test of gpu_test. `figures` gets "test", "blocking launches" and, if compute-sanitizer is
    installed, "memcheck"."""
    figures["test"] = test
    chosen = [f"--gtest_filter={test}"]
    repeated(context, figures, "blocking launches", "gpu_test", chosen, deadline, CUDA_LAUNCH_BLOCKING="1")
    program = compute_sanitizer.find()
    if program is None:
        figures["memcheck"] = "compute-sanitizer is not installed on this machine"
        return
    command = ["--tool", "memcheck", *compute_sanitizer.OURS, context.program("gpu_test"), *chosen]
    repeated(context, figures, "memcheck", program, command, deadline)
