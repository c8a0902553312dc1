"""A bundle of fake programs for tests of the GPU check. They answer like the real ones, controlled by
environment variables."""
import json
import os
import pathlib
import shutil
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "deploy"))
sys.dont_write_bytecode = True

# FAKE_GPU=1: there is a GPU.
# FAKE_WRONG=PLAN: losses under this plan are off by a thousandth.
# FAKE_FIRST_LOSS=LOSS: the first loss of runs with --data; default: a little above the logarithm of the vocabulary.
# FAKE_HANG=DEVICE: runs on this device never end.
# FAKE_BITS: what differs between runs in the last bits, "losses" or "weights"; "nan": the losses are not numbers.
# FAKE_NCCL=no: NCCL refuses.
# FAKE_CUDNN=no: cuDNN refuses attention; slow: it needs three times as long as our own kernels.
# FAKE_FAIL=WORD: runs with this word among their arguments fail.
# FAKE_BAD_OP=NAME: the benchmark cannot time this op.
# FAKE_NO_SMI=1: there is no nvidia-smi.
# FAKE_ENDS=SHAPES: the benchmark fails after it has answered for these shapes, "any" for all.
# FAKE_OURS=fits-N: our own steps of more than N sequences end in the device's out of memory.
# FAKE_DEVICE=gives: the driver refuses no memory that the planner would take.
# FAKE_DEAD: the behaviour of a run that lost a rank: "slow" (it ends late), "unnamed" (it names another
# rank), "kept" (its memory stays allocated), "orphan" (its other rank goes on).
# FAKE_SEARCH: what is wrong with a search: "estimate" (uses the estimated device overhead instead of the
# measured one), "predicted" (no plan is measured), "forgets" (loses its op times), "dirty" (its build),
# "over" (more memory than planned), "gpu" (the inventory names another).
# FAKE_TORCH: PyTorch's behaviour in a step: "fits-N" (micro batches up to N), "uncompiled" (torch.compile
# fails), "slow" (it never ends), "ends" (it fails after its answer).
AUTOCFG = r'''
import json, math, os, sys, time
environment, verb, words = os.environ, sys.argv[1], sys.argv[2:]
value = lambda name, default: words[words.index(name) + 1] if name in words else default
with open(environment["FAKE_LOG"], "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\n")
def fail(code, text):
    sys.stderr.write("autocfg: " + text + "\n")
    sys.exit(code)
def answer(json_value):
    print(json.dumps(json_value))
    sys.exit(0)
GPU_BYTES, CONTEXT_BYTES, PAGE = 81920 << 20, 500 << 20, 2 << 20
wrong = environment.get("FAKE_SEARCH", "")
if verb == "doctor":
    answer({"checks": [{"name": name, "state": "ok", "found": "it is there", "advice": ""} for name in ("cores", "gpu driver", "gpu 0", "cuda engine")]})
if verb == "workers":
    if not os.path.exists(value("--db", "")):
        fail(3, "no coordinator uses it")
    gpu = {"index": 0, "name": "NVIDIA Other" if wrong == "gpu" else "NVIDIA Fake 100", "uuid": "GPU-0", "memory_bytes": GPU_BYTES, "left_out": ""}
    answer([{"worker": "workers/local", "driver": "580.1", "gpus": [gpu]}])
if verb == "search":
    again = os.path.exists(value("--db", ""))
    open(value("--db", ""), "a").close()
    if not again:
        asked = lambda: any(line.startswith("workers") for line in open(environment["FAKE_LOG"]))
        while not asked():
            time.sleep(0.05)
        time.sleep(1)
    measured = {"planned_memory_bytes": 1000, "peak_memory_bytes": 1200 if wrong == "over" else 900, "device_overhead_bytes": 5 * 10 ** 8}
    overhead = 2684354560 if wrong == "estimate" else 5 * 10 ** 8
    plan = {"plan_text": "tp=1,pp=1,dp=1,mbs=8", "provenance": "predicted" if wrong == "predicted" else "measured", "measured": measured,
            "predicted": {"memory_bytes": {"device_overhead": overhead, "total": overhead + 1000}}}
    answer({"study": "studies/2" if again else "studies/1", "counts": {"measured": 1}, "versions": {"build_id": "1.0+abc" + ("-dirty" if wrong == "dirty" else "")},
            "cluster": {"device": {"overhead_bytes": 2684354560}}, "best": plan, "runners_up": [dict(plan, measured=None)],
            "search": {"wall_s": 1, "device_s": 1, "reused_op_times": 100 if again and wrong != "forgets" else 0}})
if verb == "trials":
    answer([{"trial": "studies/1/trials/1", "plan_text": "mbs=8", "repeat": 0, "state": "measured", "message": "", "predicted": {"step_time_s": 2.0},
             "measured": {"step_time_s": 3.0}}])
device, plan = value("--device", ""), value("--plan", "")
if environment.get("FAKE_HANG") == device:
    time.sleep(600)
if device == "cuda" and environment.get("FAKE_GPU") != "1":
    fail(2, "device cuda: no CUDA-capable device is detected")
if environment.get("AUTOCFG_GPU_TRANSPORT") == "nccl" and environment.get("FAKE_NCCL") == "no":
    fail(1, "the run failed: rank 0: NCCL: Duplicate GPU detected")
if environment.get("FAKE_FAIL") in words:
    fail(1, "the run failed: as it was told")
batch = int(value("--global-batch", "1"))
planned = 10 ** 13 if value("--model", "") == "gpt3-175b" and "--slice" not in words else 10 ** 6 + 10 ** 9 * batch
if device == "cuda":
    held = 0
    if os.path.exists(environment["FAKE_LOG"] + ".held"):
        holder, held = open(environment["FAKE_LOG"] + ".held").read().split()
        held = int(held) if os.path.exists("/proc/" + holder) else 0
    if planned > GPU_BYTES:
        fail(1, "does not fit: plan %s needs %d bytes a rank" % (plan, planned))
    used, capacity = CONTEXT_BYTES + held, GPU_BYTES - 4096
    if planned + used > capacity:
        fail(1, "does not fit: rank 0: the plan needs %d bytes (arena %d, device %d), %d more than the %d that a rank may use; the largest region is activations" %
             (planned + used, planned, used, planned + used - capacity, capacity))
    if environment.get("FAKE_DEVICE") != "gives" and -(-planned // PAGE) * PAGE + used > capacity:
        fail(1, "does not fit: rank 0: the GPU has no %d bytes left; %d are free; the largest region is activations" % (planned, capacity - used))
most = environment.get("FAKE_OURS", "")
if device == "cuda" and "--data" in words and most.startswith("fits-") and batch > int(most[5:]):
    fail(1, "does not fit: rank 0: CUDA: allocating 5 bytes of scratch memory failed: out of memory (cudaErrorMemoryAllocation)")
if int(value("--steps", "1")) > 10 ** 6:
    import signal, subprocess
    wrong = environment.get("FAKE_DEAD", "")
    sleeps = [sys.executable, "-c", "import time; time.sleep(100)"]
    ranks = [subprocess.Popen(sleeps, preexec_fn=lambda: os.setpgid(0, 0))]
    ranks.append(subprocess.Popen(sleeps, preexec_fn=lambda: os.setpgid(0, ranks[0].pid), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    print("    step          loss     grad norm        time      tokens/s")
    for step in range(5):
        print("%8d       4.60517        1.0000       10 ms          1600" % (step + 1), flush=True)
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.01)
    dead = [rank.poll() is None for rank in ranks].index(False)
    if wrong != "orphan":
        os.killpg(ranks[0].pid, signal.SIGKILL)
        ranks[1 - dead].wait()
    if wrong == "kept":
        open(environment["FAKE_LOG"] + ".kept", "w").close()
    if wrong == "slow":
        time.sleep(1.5)
    fail(1, "the run failed: rank %d: killed by signal 9 (Killed)" % (1 - dead if wrong == "unnamed" else dead))
runs, bits = sum(1 for _ in open(environment["FAKE_LOG"])), environment.get("FAKE_BITS", "")
if "--save" in words:
    open(value("--save", ""), "w").write("weights" + (str(runs) if bits == "weights" else ""))
start = 5.0 if "--init" in words else 7.0
if "--data" in words:
    start = float(environment.get("FAKE_FIRST_LOSS", math.log(json.load(open(value("--model", "")))["vocab"]) + 0.3))
losses = [start - 0.01 * step for step in range(int(value("--steps", "1")))]
if environment.get("FAKE_WRONG") == plan and device == "cuda":
    losses = [loss * 1.001 for loss in losses]
if bits in ("losses", "nan"):
    losses[-1] = None if bits == "nan" else losses[-1] + runs * 2 ** -50
if device == "cuda":
    sys.stderr.write("[debug] op choice: matmul bf16: the fastest of 8 algorithms\n")
print(json.dumps({"losses": losses, "grad_norms": [1.0] * len(losses), "step_time_s": [0.01] * len(losses), "planned_memory_bytes": planned,
                  "peak_memory_bytes": planned, "device_overhead_bytes": 5 * 10 ** 8}))
'''

GPU_TEST = r'''
import fnmatch, json, os, sys, time
names = ["Gpu.IsThere", "Gpu/OpsSuite.Matmul/cuda_fp32", "Gpu/OpsSuite.Matmul/cuda_bf16"]
if "--gtest_list_tests" in sys.argv:
    print("Gpu.\n  IsThere\nGpu/OpsSuite.\n  Matmul/cuda_fp32  # GetParam() = ...\n  Matmul/cuda_bf16")
    sys.exit(0)
there, bad = os.environ.get("FAKE_GPU") == "1", os.environ.get("FAKE_BAD_TEST", "")
pattern = next((a.split("=", 1)[1] for a in sys.argv if a.startswith("--gtest_filter=")), "*")
suites, failed = {}, False
for name in names:
    if not any(fnmatch.fnmatchcase(name, each) for each in pattern.split(":")):
        continue
    suite, _, test = name.partition(".")
    print("[ RUN      ] " + name, flush=True)
    if name == bad == os.environ.get("FAKE_CRASH"):
        os.abort()
    entry = {"name": test, "status": "RUN", "result": "COMPLETED" if there else "SKIPPED"}
    if not there:
        print("tests/gpu/ops_test.cc:20: Skipped\nno CUDA-capable device is detected\n")
    if there and name == bad:
        entry["failures"] = [{"failure": "ops_suite.h:12\nwrong by 3"}]
        failed = True
    else:
        print("[       OK ] " + name + " (1 ms)", flush=True)
    suites.setdefault(suite, []).append(entry)
for argument in sys.argv:
    if argument.startswith("--gtest_output=json:"):
        json.dump({"testsuites": [{"name": k, "testsuite": v} for k, v in suites.items()]}, open(argument.split(":", 1)[1], "w"))
sys.exit(1 if failed else 0)
'''

OPS_BENCH = r'''
import json, os, sys
if sys.argv[1] == "--hold":
    with open(os.environ["FAKE_LOG"] + ".held", "w") as held:
        held.write("%d %s" % (os.getpid(), sys.argv[2]))
    print("held", flush=True)
    sys.stdin.read()
if sys.argv[1] == "--device":
    kept = 2 << 30 if os.path.exists(os.environ["FAKE_LOG"] + ".kept") else 0
    print(json.dumps({"device": "NVIDIA Fake 100", "memory_bytes": 81920 << 20, "free_bytes": (80 << 30) - kept}))
    sys.exit(0)
if sys.argv[1] == "--step":
    json.load(open(sys.argv[2]))
    ops = [{"op": "rope bf16", "times_a_step": 8, "flops": 0, "bytes": 8e9, "median_s": 0.01, "min_s": 0.01, "runs": 10},
           {"op": "matmul bf16", "times_a_step": 1, "flops": 1e12, "bytes": 1e6, "median_s": 0.02, "min_s": 0.02, "runs": 10}]
    errors = {"rope bf16": "no such kernel"} if os.environ.get("FAKE_BAD_OP") == "rope" else {}
    print(json.dumps({"device": "fake", "ops": ops[len(errors):], "errors": errors, "choices": []}))
    sys.exit(1 if errors else 0)
forced = os.environ.get("AUTOCFG_ATTENTION")
if forced == "cudnn" and os.environ.get("FAKE_CUDNN") == "no":
    if os.environ.get("CUDNN_LOGLEVEL_DBG") == "2":
        with open(os.environ["CUDNN_LOGDEST_DBG"], "w") as log:
            log.write("W! CuDNN (v91900 56) function cudnnBackendFinalize() called:\nw!     Warning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: too wide\n\n")
    sys.stderr.write("autocfg_gpu_ops_bench: cuDNN refuses this attention\n")
    sys.exit(1)
slow = 3.0 if forced == "cudnn" and os.environ.get("FAKE_CUDNN") == "slow" else 1.0
bad, only = os.environ.get("FAKE_BAD_OP"), sys.argv[2].split(",") if len(sys.argv) > 2 else None
parts = {"matmul": ["product_s"], "copy": ["copy_s"], "attention": ["forward_s", "backward_s"], "layer_norm": ["forward_s", "backward_s"],
         "cross_entropy": ["both_s"], "adamw": ["step_s"]}
ops = {shape["name"]: {part: {"median_s": 0.002 * slow, "min_s": 0.001, "runs": 30} for part in parts[shape["kind"]]} for shape in json.load(open(sys.argv[1]))
       if shape["name"] != bad and (only is None or shape["name"] in only)}
errors = {bad: "no such kernel"} if bad and (only is None or bad in only) else {}
print(json.dumps({"device": "fake", "ops": ops, "errors": errors, "choices": ["attention: by %s" % forced]}))
if os.environ.get("FAKE_ENDS") in sys.argv[2:] + ["any"]:
    sys.stderr.write("autocfg_gpu_ops_bench: an illegal memory access\n")
    sys.exit(134)
sys.exit(1 if errors else 0)
'''

# An interpreter with PyTorch: answers for the scripts of bench/ instead of running them.
PYTHON_WITH_TORCH = r'''
import json, os, sys, time
behaviour = os.environ.get("FAKE_TORCH", "")
if sys.argv[1] == "-c":
    print("2.fake" if "torch.__version__" in sys.argv[2] else "")
    sys.exit(0)
if sys.argv[1].endswith("gpu_ops_torch.py"):
    parts = {"matmul": ["product_s"], "copy": ["copy_s"], "attention": ["forward_s", "backward_s"], "layer_norm": ["forward_s", "backward_s"],
             "cross_entropy": ["both_s"], "adamw": ["step_s"]}
    ops = {}
    for shape in json.load(open(sys.argv[2])):
        ops[shape["name"]] = {part: {"median_s": 0.004, "min_s": 0.001, "runs": 30} for part in parts[shape["kind"]]}
        print(json.dumps({"torch": "2.fake", "ops": ops, "errors": {}}), flush=True)
        if behaviour == "slow" and len(ops) == 4:
            time.sleep(600)
    sys.exit(0)
value = lambda name: sys.argv[sys.argv.index(name) + 1]
if behaviour == "slow":
    time.sleep(600)
if behaviour.startswith("fits-") and int(value("--micro-batch")) > int(behaviour[5:]):
    sys.stderr.write("gpu_step_torch: does not fit: CUDA out of memory\n")
    sys.exit(3)
uncompiled = behaviour == "uncompiled"
print(json.dumps({"torch": "2.fake", "compiled": "none" if uncompiled else value("--compile"), "compile_error": "no C compiler" if uncompiled else None,
                  "step_time_s": [0.02] * int(value("--steps")), "loss": [10.0] * int(value("--steps")), "compile_s": 1.0, "peak_memory_bytes": 1}))
if behaviour == "ends":
    sys.stderr.write("terminate called\n")
    sys.exit(134)
'''

NVIDIA_SMI = r'''
import os, sys, time
if os.environ.get("FAKE_GPU") != "1" or os.environ.get("FAKE_NO_SMI") == "1":
    sys.stderr.write("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
    sys.exit(9)
if any(a.startswith("--loop-ms") for a in sys.argv):
    print("1980, 650.5, 60, 99\n1900, 660.5, 61, 100\n300, 80.5, 40, 0", flush=True)
    open(os.environ["FAKE_LOG"] + ".smi", "w").close()
    time.sleep(600)
fields = next(a for a in sys.argv if a.startswith("--query-gpu="))[12:].split(",")
if os.environ.get("FAKE_OLD_DRIVER") == "1" and "compute_cap" in fields:
    print('Field "compute_cap" is not a valid field to query.')
    sys.exit(2)
known = {"name": "NVIDIA Fake 100", "driver_version": "580.1", "memory.total": "81920", "mig.mode.current": "[N/A]"}
print(", ".join(known.get(field, "1") for field in fields))
'''


def write_program(path, body):
    # Without site-packages: they are started hundreds of times.
    path.write_text(f"#!{sys.executable} -IS\n{body}")
    path.chmod(0o755)


def make_bundle(directory):
    """Returns the bundle's root, and the environment for running its gpu_check."""
    root = pathlib.Path(directory) / "bundle"
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    (root / "bench").mkdir()
    shutil.copy(SOURCE / "deploy" / "gpu_check", root)
    shutil.copytree(SOURCE / "deploy" / "gpu", root / "gpu", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SOURCE / "search" / "data" / "models" / "gpt2-1.5b.json", root / "gpu" / "models")
    # The machine has no libfakecudnn; the engine opens it if present.
    (root / "manifest.json").write_text(json.dumps({"revision": "fake-1", "engine": "fake", "cuda_libraries": ["libfakecudart.so.13", "libfakecudnn.so.9"],
                                                    "cuda_libraries_at_run_time": ["libfakecudnn.so.9"], "libraries": []}))
    for name, body in (("autocfg", AUTOCFG), ("gpu_test", GPU_TEST), ("autocfg_gpu_ops_bench", OPS_BENCH)):
        write_program(root / "bin" / name, body)
    tools = pathlib.Path(directory) / "tools"
    tools.mkdir()
    write_program(tools / "nvidia-smi", NVIDIA_SMI)
    write_program(tools / "python-with-torch", PYTHON_WITH_TORCH)
    libraries = pathlib.Path(directory) / "cuda"
    libraries.mkdir()
    for name in ("libfakecudart.so.13", "libcuda.so.1"):
        (libraries / name).write_text("")
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(libraries), "FAKE_LOG": str(pathlib.Path(directory) / "log"),
                   "HOME": str(directory)}
    return root, environment
