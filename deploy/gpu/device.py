"""The machine: its GPU, driver and libraries, and whether the engine's programs start. Reads the
GPU's settings and never changes them."""
import json
import os
import sys

from gpu import libraries, programs
from gpu.context import one_gpu_text
from gpu.outcome import Failure, NotPossible, OutOfTime

FIELDS = ("name", "driver_version", "memory.total", "memory.used", "mig.mode.current",
          "compute_cap", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem",
          "power.limit", "temperature.gpu", "pcie.link.gen.max")
LEAST = ("name", "driver_version", "memory.total")  # for drivers that do not know one of the others
UNITS = {"memory.total": "MiB", "memory.used": "MiB", "clocks.sm": "MHz", "clocks.mem": "MHz",
         "clocks.max.sm": "MHz", "clocks.max.mem": "MHz", "power.limit": "W",
         "temperature.gpu": "degrees Celsius"}
PROBE = "Gpu.IsThere"


def ask_driver(context, deadline):
    """Returns ({field: text} of each GPU, "") or (None, why not)."""
    why = ""
    for fields in (FIELDS, LEAST):
        try:
            done = programs.run(["nvidia-smi", "--query-gpu=" + ",".join(fields),
                                 "--format=csv,noheader,nounits"], deadline,
                                context.plain_environment)
        except OutOfTime as reason:
            return None, str(reason)
        if done.code == 0 and done.out.strip():
            return [dict(zip(fields, (part.strip() for part in line.split(","))))
                    for line in done.out.strip().splitlines()], ""
        why = why or done.last_words()
    return None, why


def skip_reason(text):
    """Returns the line that GoogleTest prints after "FILE:LINE: Skipped", or None."""
    lines = [line.strip() for line in text.splitlines()]
    return next(
        (after for line, after in zip(lines, lines[1:]) if line.endswith(": Skipped") and after),
        None)


def probe(context, deadline):
    """Returns "" if the engine sees a GPU, else the reason for which its own test is skipped."""
    file = os.path.join(context.work, "probe.json")
    done = context.run("gpu_test", [f"--gtest_filter={PROBE}", f"--gtest_output=json:{file}"],
                       deadline, limit_s=60)
    if not os.path.exists(file):
        return f"gpu_test does not start: {done.last_words()}"
    with open(file, encoding="utf-8") as text:
        result = json.load(text)
    os.remove(file)
    for suite in result["testsuites"]:
        for test in suite["testsuite"]:
            if test["result"] == "COMPLETED" and not test.get("failures"):
                return ""
    # Removes the parts of the engine's message that this check repeats or does not need.
    return (skip_reason(done.out) or done.last_words()).removeprefix("no GPU: ").removesuffix(
        "; use --device cpu")


def describe(context, figures, deadline):
    """Records how the engine itself sees the GPU; works without nvidia-smi, too."""
    done = context.run("autocfg_gpu_ops_bench", ["--device"], deadline, limit_s=60)
    if done.code != 0:
        raise Failure(f"autocfg_gpu_ops_bench --device: exit code {done.code}: {done.last_words()}")
    figures["seen_by_the_engine"] = seen = json.loads(done.out)
    context.device_name = context.device_name or seen["device"]
    context.memory_bytes = context.memory_bytes or seen["memory_bytes"]


def describe_libraries(context, figures, deadline):
    """Records the versions of CUDA's libraries as the engine's programs find them, and what each
    program is linked with."""
    script = os.path.join(context.root, "gpu", "versions.py")
    names = [libraries.DRIVER, *context.manifest["cuda_libraries"]]
    done = programs.run([sys.executable, script, *names], deadline, context.environment,
                        context.work)
    figures["versions"] = json.loads(
        done.out) if done.code == 0 else f"not known: {done.last_words()}"
    linked = figures["linked"] = {}
    for name in sorted(os.listdir(os.path.join(context.root, "bin"))):
        done = programs.run(["ldd", context.program(name)], deadline, context.environment,
                            context.work, noted=False)
        linked[name] = [line.split(" (0x")[0].strip() for line in done.out.splitlines()
                        if "not found" in line or "cuda" in line or "cublas" in line]


def run(context, figures, deadline):
    describe_libraries(context, figures, deadline)
    gpus, why = ask_driver(context, deadline)
    figures["libraries"] = context.libraries
    figures["libraries_not_found"] = context.missing
    figures["units"] = UNITS
    figures["commands"] = [f"nvidia-smi --query-gpu={','.join(FIELDS)} "
                           "--format=csv,noheader,nounits",
                           context.command("gpu_test", [f"--gtest_filter={PROBE}"]),
                           context.command("autocfg_gpu_ops_bench", ["--device"])]
    if gpus is None:
        figures["nvidia_smi"] = f"no answer: {why}"
    else:
        figures["gpus"] = gpus
        context.device_name = gpus[0]["name"]
        context.driver = gpus[0]["driver_version"]
        context.memory_bytes = int((one_gpu_text(gpus[0]["memory.total"]) or 0) * 1048576)
    spared = {*libraries.AT_RUN_TIME, *context.manifest.get("cuda_libraries_at_run_time", [])}
    needed = [name for name in context.missing if name not in spared]
    if needed and gpus is not None:
        context.gpu = f"libraries were not found: {', '.join(needed)}"
        raise Failure(context.gpu)
    context.gpu = probe(context, deadline)
    if context.gpu:
        hint = f"; not found: {', '.join(needed)}" if needed else ""
        if gpus is None:
            raise NotPossible(f"no GPU: {context.gpu}{hint}")
        raise Failure(f"the driver shows {context.device_name}, but the engine does not see it: "
                      f"{context.gpu}{hint}")
    describe(context, figures, deadline)
