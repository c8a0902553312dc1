"""compute-sanitizer over the tests of the ops, as many as there is time for: memory faults, and races in shared memory, of our own kernels. Those of the
libraries are left out, as are the calls to CUDA's interface that fail: libraries try what a driver has, and our own check every answer.

Only tests that GoogleTest calls passed under the tool count as run: one that does not take the device may skip them all, or not start them,
and still end well with "0 errors".
A tool under which none ran proves nothing, which is "not possible"; what a tool found, and one that breaks after tests ran under it, is a failure."""
import glob
import os
import re
import shutil

from gpu import device, ops
from gpu.context import seconds_left
from gpu.outcome import Failure, NotPossible, OutOfTime

PLACES = ("/usr/local/cuda*/bin/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer/compute-sanitizer", "/opt/nvidia/*/compute-sanitizer")
TOOLS = ("memcheck", "racecheck")
OURS = ("--kernel-name", "kns=autocfg", "--report-api-errors", "no")  # kernels whose name contains our namespace
BATCHES = 16
# Our own attention kernels, which the suites of the ops do not reach where cuDNN computes attention.
MORE = "GpuAttention.MatchesTheReference/own"
REFUSALS = ("Device not supported", "not supported on this", "Unable to", "ERR_NVGPUCTRPERM", "InternalError", "LibraryNotLoaded")


def find():
    found = shutil.which("compute-sanitizer")
    return found or next((path for place in PLACES for path in sorted(glob.glob(place), reverse=True) if os.access(path, os.X_OK)), None)


def tests_of(text):
    """Full names from --gtest_list_tests."""
    names, suite = [], ""
    for line in text.splitlines():
        if not line.startswith(" "):
            suite = line.split("#")[0].strip()
        elif line.strip() and suite:
            names.append(suite + line.split("#")[0].strip())
    return [name for name in names if "Suite" in name or name.endswith(MORE)]


def errors_in(text):
    """The count in compute-sanitizer's summary, or None where there is none."""
    found = re.findall(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)", text)
    return int(found[-1]) if found else None


def refusal_in(text):
    """The line by which a tool says that it does not take the device, or None."""
    return next((line.strip() for line in text.splitlines() if any(words in line for words in REFUSALS)), None)


def check(context, program, tool, batches, entry, wrong, stop_at):
    """The batches under one tool until `stop_at`; counts into `entry`, what is wrong into the list `wrong`. Returns why none of the tests ran, "" where some did."""
    libraries = f"LD_LIBRARY_PATH={context.environment['LD_LIBRARY_PATH']}"
    entry["command"] = context.shown([libraries, program, "--tool", tool, *OURS, context.program("gpu_test"), "--gtest_filter=NAMES"])
    why = f"not one batch of {len(batches[0])} tests ended within its time"
    for batch in batches:
        command = ["--tool", tool, *OURS, "--error-exitcode", "9", context.program("gpu_test"), "--gtest_filter=" + ":".join(batch)]
        try:
            done = context.run(program, command, stop_at)
        except OutOfTime as late:
            entry["last"] = str(late)
            break
        text = done.out + "\n" + done.err
        outcomes = list(ops.started_tests(text).values())
        entry["tests_run"] += outcomes.count("passed")
        errors = errors_in(text)
        if not entry["tests_run"]:
            refusal = refusal_in(text)
            if refusal:
                return refusal
            if errors is None and "failed" not in outcomes:
                return f"no summary: {done.last_words()}"
            why = device.skip_reason(text) or f"no test passed: {done.last_words()}"
        entry["errors"] += errors or 0
        if errors is None:
            wrong.append(f"{tool}: no summary after {entry['tests_run']} tests: exit code {done.code}, {done.last_words()}, in {', '.join(batch[:3])}, ...")
        elif errors or done.code != 0:
            wrong.append(f"{tool}: {errors} errors, exit code {done.code}, in {', '.join(batch[:3])}, ...")
    return "" if entry["tests_run"] else why


def run(context, figures, deadline):
    context.needs_gpu()
    program = find()
    if program is None:
        raise NotPossible("compute-sanitizer is not on this machine")
    listed = context.run("gpu_test", ["--gtest_list_tests"], deadline)
    tests = tests_of(listed.out)
    if not tests:
        raise Failure(f"gpu_test lists no tests: {listed.last_words()}")
    figures["program"], figures["tests"] = program, len(tests)
    batches = [tests[i::BATCHES] for i in range(min(BATCHES, len(tests)))]
    wrong, without = [], []
    for tool in TOOLS:
        entry = figures.setdefault(tool, {"tests_run": 0, "errors": 0})
        share = seconds_left(deadline) / (2 if tool == TOOLS[0] else 1)
        why = check(context, program, tool, batches, entry, wrong, deadline - seconds_left(deadline) + share)
        if why:
            entry["not_run"] = why
            without.append(f"{tool}: {why}")
    if wrong:
        raise Failure("; ".join([*wrong, *without]))
    if without:
        raise NotPossible("; ".join([*without, *(f"{tool} found nothing in {figures[tool]['tests_run']} tests" for tool in TOOLS if figures[tool]["tests_run"])]))
