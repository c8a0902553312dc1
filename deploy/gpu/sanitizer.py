"""compute-sanitizer over the tests of the ops, as many as there is time for: memory faults, and races in shared memory, of our own kernels. Those of the
libraries are left out, as are the calls to CUDA's interface that fail: libraries try what a driver has, and our own check every answer."""
import glob
import os
import re
import shutil

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
    wrong, ended = [], 0
    batches = [tests[i::BATCHES] for i in range(BATCHES)]
    for tool in TOOLS:
        entry = figures.setdefault(tool, {"tests_run": 0, "errors": 0})
        share = seconds_left(deadline) / (2 if tool == TOOLS[0] else 1)
        stop_at = deadline - seconds_left(deadline) + share
        for batch in filter(None, batches):
            command = ["--tool", tool, *OURS, "--error-exitcode", "9", context.program("gpu_test"), "--gtest_filter=" + ":".join(batch)]
            try:
                done = context.run(program, command, stop_at)
            except OutOfTime as late:
                entry["last"] = str(late)
                break
            errors = errors_in(done.out + done.err)
            refusal = next((line.strip() for line in (done.out + done.err).splitlines() if any(words in line for words in REFUSALS)), None)
            if refusal and (errors is None or done.code not in (0, 9)):
                raise NotPossible(f"{tool}: {refusal}")
            if errors is None:
                raise NotPossible(f"{tool} gave no summary: {done.last_words()}")
            entry["tests_run"] += len(batch)
            entry["errors"] += errors
            if errors or done.code != 0:
                wrong.append(f"{tool}: {errors} errors, exit code {done.code}, in {', '.join(batch[:3])}, ...")
        ended += entry["tests_run"]
    if wrong:
        raise Failure("; ".join(wrong))
    if not ended:
        raise NotPossible(f"compute-sanitizer is too slow here: not one batch of {len(batches[0])} tests ended within its time")
