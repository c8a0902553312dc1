"""Shared by the sections: the bundle's programs and how they are run, the machine's properties, and
results of earlier sections."""
import json
import math
import os
import re
import shlex
import time

from gpu import libraries, programs
from gpu.outcome import Failure, NotPossible, OutOfTime


class TrainFailed(Failure):
    """`autocfg train` ended without a result; `code` is its exit code, `words` its error line,
    `run` what repeat.py needs to repeat it."""

    def __init__(self, code, words, command="", run=None):
        super().__init__(f"exit code {code}: {words}")
        self.code, self.words, self.command, self.run = code, words, command, run


class Context:
    def __init__(self, root, work, python, jobs, environment=None):
        self.root, self.work, self.python, self.jobs = root, work, python, jobs
        self.why_no_torch = ""     # if `python` is None
        self.torch_compile = None  # what torch.compile compiles at once; None: as in gpu/steps.json
        self.seed = 1
        base = dict(os.environ if environment is None else environment)
        self.plain_environment = base
        with open(os.path.join(root, "manifest.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        needed = [*self.manifest["cuda_libraries"], libraries.DRIVER, *libraries.AT_RUN_TIME]
        packages = libraries.site_packages() + (libraries.site_packages(python) if python else [])
        places = libraries.directories(base, packages)
        self.libraries, self.missing, path = libraries.find(
            needed, libraries.loader_cache(), places)
        # The log of a run says which implementation each of its ops chose.
        self.environment = dict(base, LD_LIBRARY_PATH=":".join([os.path.join(root, "lib"), *path]),
                                OMP_NUM_THREADS="1", AUTOCFG_LOG=base.get("AUTOCFG_LOG", "debug"))
        self.gpu = None          # why there is none; "" if there is one
        self.memory_bytes = 0    # of the GPU
        self.device_name = ""
        self.driver = ""
        self.rates = {}          # measured on this device: matmul_flops_per_s, copy_bytes_per_s
        self.rate_of = ""        # the product that the first is the rate of
        self.reference = {}      # results of runs that several sections compare with
        self.repeated = False    # a test or run that failed; only the first one is (repeat.py)

    def program(self, name):
        return os.path.join(self.root, "bin", name)

    def model(self, name):
        return os.path.join(self.root, "gpu", "models", name + ".json")

    def command(self, program, arguments, **variables):
        """Returns the shell command that corresponds to run() with these arguments, for the
        report."""
        by_bundle = [] if os.path.isabs(program) else ["gpu_bundle/gpu_check", "--exec"]
        settings = [f"{name}={value}" for name, value in variables.items()]
        return self.shown([*settings, *by_bundle, program, *arguments])

    def shown(self, words):
        """Returns a command relative to the folder that contains the bundle. WORK is the check's
        temporary folder, which no longer exists."""
        return shlex.join(str(word).replace(self.root, "gpu_bundle").replace(self.work, "WORK")
                          for word in words)

    def run(self, program, arguments, deadline, limit_s=None, noted=True, **variables):
        """Runs a program of the bundle, or one by its path, with the bundle's and CUDA's libraries.
        `noted`: as in programs.run."""
        path = program if os.path.isabs(program) else self.program(program)
        shown = self.command(program, arguments, **variables)
        return programs.run([path, *arguments], deadline, dict(self.environment, **variables),
                            self.work, limit_s, noted, shown)

    def needs_gpu(self):
        if self.gpu is None:
            raise NotPossible("the section device has not run")
        if self.gpu:
            raise NotPossible(f"no GPU: {self.gpu}")

    def train(self, model, plan, device, deadline, precision="fp32", steps=1, global_batch=None,
              seq_len=None, extra=(), limit_s=None, **variables):
        """Returns the result of `autocfg train --json`, with its "command", its "wall_s" and its
        "run", by which repeat.py can repeat it. Raises TrainFailed."""
        command = ["train", "--model", model, "--plan", plan, "--device", device, "--precision",
                   precision, "--steps", str(steps), "--json", *extra]
        if global_batch:
            command += ["--global-batch", str(global_batch)]
        if seq_len:
            command += ["--seq-len", str(seq_len)]
        run = {"arguments": command, "variables": variables}
        shown = self.command("autocfg", command, **variables)
        try:
            done = self.run("autocfg", command, deadline, limit_s, **variables)
        except OutOfTime:
            if device == "cuda":
                programs.note_suspect(run)
            raise
        if done.code != 0:
            if device == "cuda":
                programs.note_suspect(run)
            raise TrainFailed(done.code, done.last_words(), shown, run)
        try:
            result = json.loads(done.out)
        except ValueError:
            raise Failure(f"autocfg train printed no JSON: {done.out[:200]!r}") from None
        result.update(wall_s=done.seconds, run=run)
        result["command"] = shown
        return result

    def planned_bytes(self, model, plan, precision, deadline, **options):
        """Returns the bytes that the dry device counts for the worst rank; nothing is computed."""
        return self.train(model, plan, "dry", deadline, precision,
                          **options)["planned_memory_bytes"]


def worst_relative(measured, reference):
    """Returns the largest |a - b| / |b| over two lists of the same length; infinite if a number is
    missing or not finite."""
    if len(measured) != len(reference) or not reference:
        return math.inf
    worst = 0.0
    for a, b in zip(measured, reference):
        if a is None or b is None or not math.isfinite(a) or not math.isfinite(b) or b == 0:
            return math.inf
        worst = max(worst, abs(a - b) / abs(b))
    return worst


def one_gpu_text(text):
    """Returns the number at the start of a text such as "143771 MiB", or None."""
    match = re.match(r"\s*([0-9.]+)", text)
    return float(match.group(1)) if match else None


def seconds_left(deadline):
    return deadline - time.monotonic()
