"""Runs compute-sanitizer over the tests of the ops, as many as time allows: memory errors, and
races in shared memory, of our own kernels (compute_sanitizer.py).

Only tests that GoogleTest reports as passed under the tool count as run. A tool that does not
support the device may skip all tests, or not start them, and still end with "0 errors". A tool
under which no test ran proves nothing ("not possible"). Errors that a tool finds are failures. So
is a tool that breaks after tests ran under it, with one exception.

Racecheck breaks ("Internal Sanitizer Error", an illegal address) where a kernel of cuBLASLt in bf16
runs that it does not watch (seen on an H100, CUDA 13.0). It accepts the same tests if it watches
every kernel, which takes many times as long. So the tests of a batch in which the tool breaks run
once more in that way, one by one, after all others. `broke_in` names those for which no time was
left."""
import re

from gpu import compute_sanitizer, device, ops
from gpu.context import seconds_left
from gpu.outcome import Failure, NotPossible, OutOfTime

# With the environment of each. Our own epilogues run under racecheck, in place of cuBLASLt's.
TOOLS = {"memcheck": {}, "racecheck": {"AUTOCFG_MATMUL": "apart"}}
BATCHES = 16
# Our own attention kernels; the suites of the ops do not reach them if cuDNN computes attention.
MORE = "GpuAttention.MatchesTheReference/own"
BROKE = "Internal Sanitizer Error"  # of the tool itself; its summary counts it as an error
REFUSALS = ("Device not supported", "not supported on this", "Unable to", "ERR_NVGPUCTRPERM",
            "InternalError", "LibraryNotLoaded")


def tests_of(text):
    """Returns full test names from --gtest_list_tests."""
    names = [name for tests in ops.listed_suites(text).values() for name in tests]
    return [name for name in names if "Suite" in name or name.endswith(MORE)]


def errors_in(text):
    """Returns the count in compute-sanitizer's summary, or None if there is no summary."""
    found = re.findall(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)", text)
    return int(found[-1]) if found else None


def refusal_in(text):
    """Returns the line in which a tool refuses the device, or None."""
    return next((line.strip() for line in text.splitlines()
                 if any(words in line for words in REFUSALS)), None)


def unfinished(queue):
    """Returns the tests of the queue that run for the second time."""
    return [name for tests, watched in queue if watched == compute_sanitizer.EVERY
            for name in tests]


def check(context, program, tool, batches, entry, wrong, stop_at):
    """Runs the batches under one tool until `stop_at`. Adds counts to `entry` and errors to the
    list `wrong`. Returns why no test ran, "" if some did."""
    variables = [f"LD_LIBRARY_PATH={context.environment['LD_LIBRARY_PATH']}",
                 *(f"{name}={value}" for name, value in TOOLS[tool].items())]
    entry["command"] = context.shown([*variables, program, "--tool", tool, *compute_sanitizer.OURS,
                                      context.program("gpu_test"), "--gtest_filter=NAMES"])
    why = f"not one batch of {len(batches[0])} tests ended within its time"
    queue = [(batch, compute_sanitizer.OURS) for batch in batches]
    while queue:
        batch, watched = queue[0]
        command = ["--tool", tool, *watched, "--error-exitcode", "9",
                   context.program("gpu_test"), "--gtest_filter=" + ":".join(batch)]
        try:
            done = context.run(program, command, stop_at, **TOOLS[tool])
        except OutOfTime as late:
            entry["last"] = str(late)
            break
        queue.pop(0)
        text = done.out + "\n" + done.err
        outcomes = ops.started_tests(text)
        passed = [name for name, outcome in outcomes.items() if outcome == "passed"]
        entry["tests_run"] += len(passed)
        errors = errors_in(text)
        if BROKE in text and watched == compute_sanitizer.OURS:
            # What its summary counts may be its own error, or hazards: the second runs tell.
            entry["tests_run"] -= len(passed)
            entry.setdefault("with_every_kernel", []).extend(batch)
            queue += [([name], compute_sanitizer.EVERY) for name in batch]
            why = "it broke in the tests that ran, and no time was left to run them again"
            continue
        if not entry["tests_run"]:
            refusal = refusal_in(text)
            if refusal:
                return refusal
            if errors is None and "failed" not in outcomes.values():
                return f"no summary: {done.last_words()}"
            why = device.skip_reason(text) or f"no test passed: {done.last_words()}"
        entry["errors"] += errors or 0
        if errors is None:
            wrong.append(f"{tool}: no summary after {entry['tests_run']} tests: exit code "
                         f"{done.code}, {done.last_words()}, in {', '.join(batch[:3])}, ...")
        elif errors or done.code != 0:
            wrong.append(f"{tool}: {errors} errors, exit code {done.code}, in "
                         f"{', '.join(batch[:3])}, ...")
    if unfinished(queue):
        entry["broke_in"] = unfinished(queue)
    return "" if entry["tests_run"] else why


def run(context, figures, deadline):
    context.needs_gpu()
    program = compute_sanitizer.find()
    if program is None:
        raise NotPossible("compute-sanitizer is not installed on this machine")
    listed = context.run("gpu_test", ["--gtest_list_tests"], deadline)
    tests = tests_of(listed.out)
    if not tests:
        raise Failure(f"gpu_test lists no tests: {listed.last_words()}")
    figures["program"], figures["tests"] = program, len(tests)
    batches = [tests[i::BATCHES] for i in range(min(BATCHES, len(tests)))]
    wrong, without = [], []
    for tool in TOOLS:
        entry = figures.setdefault(tool, {"tests_run": 0, "errors": 0})
        share = seconds_left(deadline) / (2 if tool == "memcheck" else 1)
        why = check(context, program, tool, batches, entry, wrong,
                    deadline - seconds_left(deadline) + share)
        if why:
            entry["not_run"] = why
            without.append(f"{tool}: {why}")
    if wrong:
        raise Failure("; ".join([*wrong, *without]))
    if without:
        raise NotPossible("; ".join([*without,
                                     *(f"{tool} found nothing in {figures[tool]['tests_run']} tests"
                                       for tool in TOOLS if figures[tool]["tests_run"])]))
