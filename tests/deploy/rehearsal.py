"""Runs the check's sections with the real autocfg, trainer and op benchmark on the emulated CUDA, in tiny
sizes. Tests that commands, options and answers fit together, from the section to the report. Only what needs
a real GPU is replaced: nvidia-smi, NVML, PyTorch. Of the tests of the ops, the emulator's tests run the
suites that they share with gpu_test. Needs AUTOCFG_BUILD_DIR."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import fake_bundle
from gpu import bench_ops, bench_steps, dead_rank, device, layouts, logs, losses, memory, ops, programs, reproducible, search, slices, smoke, step_ops, weights
from gpu.context import Context
from gpu.report import Report, Section, run_sections

BUILD = pathlib.Path(os.environ.get("AUTOCFG_BUILD_DIR", "/AUTOCFG_BUILD_DIR is not set"))
GPU_BYTES = 80 << 30        # as the fake nvidia-smi reports
SMALL_BYTES = (256 << 20) - 4096  # of the GPU that runs out of memory; not whole pages
DRIVER = "570.86.15"        # the fake NVML's
GPT = {"layers": 4, "hidden": 32, "heads": 2, "vocab": 100, "max_seq_len": 8}
LLAMA = dict(GPT, kv_heads=2, ffn_hidden=48, activation="swiglu", norm="rmsnorm", position="rope", bias=False, tied_embeddings=False)
OPS = [{"name": "matmul_8192", "kind": "matmul", "m": 16, "n": 32, "k": 48}, {"name": "copy_2gib", "kind": "copy", "bytes": 4096},
       {"name": "attention", "kind": "attention", "batch": 1, "seq": 16, "heads": 2, "kv_heads": 1, "head_dim": 16},
       {"name": "layer_norm", "kind": "layer_norm", "tokens": 8, "width": 32}, {"name": "cross_entropy", "kind": "cross_entropy", "tokens": 4, "vocab": 128},
       {"name": "unknown", "kind": "unheard-of"}]
PLANS = ("tp=2,mbs=1", "pp=2,vpp=2,mbs=1,schedule=interleaved")
SUITES = ("DeviceSuite", "OpsSuite", "OpsAttentionSuite", "OpsCrossEntropySuite", "OpsEpilogueSuite")  # gpu_test has them too
# Lists and runs these suites and their tests; the fake program handles others.
GPU_TEST = """#!/bin/sh
case "$*" in
  *--gtest_filter=*Suite.*) exec "{program}" "$@" ;;
  *--gtest_filter=*) exec "$0.fake" "$@" ;;
esac
exec "{program}" --gtest_filter="{suites}" "$@"
"""
MEMORY = (("gpt2-check", "tp=1,pp=1,dp=1,mbs=2", "bf16"), ("llama-check", "tp=1,pp=1,dp=1,mbs=1,recompute=full:1", "fp32"))


def tiny_bundle(directory):
    """Returns (root, environment): the fake bundle with the build's programs in it."""
    root, environment = fake_bundle.make_bundle(directory)
    for name in ("autocfg", "autocfg-supervisor", "autocfg-trainer"):
        shutil.copy2(BUILD / "bin" / name, root / "bin" / name)
    shutil.copy2(BUILD / "tests" / "emulated_gpu_ops_bench", root / "bin" / "autocfg_gpu_ops_bench")
    os.rename(root / "bin" / "gpu_test", root / "bin" / "gpu_test.fake")
    (root / "bin" / "gpu_test").write_text(GPU_TEST.format(program=BUILD / "tests" / "cuda_emulated_test", suites=":".join(f"*/{suite}.*" for suite in SUITES)))
    (root / "bin" / "gpu_test").chmod(0o755)
    for name, model in (("gpt2-check", GPT), ("llama-check", LLAMA), ("tiny", GPT), ("smallest", dict(GPT, layers=2))):
        (root / "gpu" / "models" / f"{name}.json").write_text(json.dumps(dict(model, name=name)))
    (root / "gpu" / "steps.json").write_text(json.dumps([{"model": "tiny", "seq_len": 8, "compile": "model"}]))
    (root / "gpu" / "op_shapes.json").write_text(json.dumps(OPS))
    smi = root.parent / "tools" / "nvidia-smi"
    smi.write_text(smi.read_text().replace("580.1", DRIVER))
    (root.parent / "emulated-gpu").mkdir()
    gpu = f"name=NVIDIA Fake 100,uuid=GPU-0000-a,total={GPU_BYTES},nvlinks=0,board=0"
    return root, dict(environment, FAKE_GPU="1", AUTOCFG_GPU_MODULE=str(BUILD / "tests" / "libautocfg_emulated_gpu.so"),
                      AUTOCFG_NVML_LIBRARY=str(BUILD / "tests" / "libfake_nvml.so"), AUTOCFG_FAKE_GPUS=gpu, AUTOCFG_EMULATED_GPU=str(root.parent / "emulated-gpu"), AUTOCFG_EMULATED_GPU_BYTES=str(1 << 30))


def on_a_small_gpu(context, figures, deadline):
    """Runs does_not_fit with a driver that reserves all but SMALL_BYTES of the GPU, as seen by a rank that
    found its GPU in NVML."""
    gpus = context.environment["AUTOCFG_FAKE_GPUS"].replace("GPU-0000-a", "GPU-emulated")
    small = mock.patch.dict(context.environment, AUTOCFG_EMULATED_GPU_BYTES=str(SMALL_BYTES), AUTOCFG_FAKE_GPUS=gpus)
    with small, mock.patch.object(context, "memory_bytes", SMALL_BYTES):
        memory.does_not_fit(context, figures, deadline)


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        root, environment = tiny_bundle(directory.name)
        work = pathlib.Path(directory.name) / "work"
        work.mkdir()
        context = Context(str(root), str(work), str(pathlib.Path(directory.name) / "tools" / "python-with-torch"), 2, environment)
        report = Report(str(pathlib.Path(directory.name) / "report.json"), {})
        sections = [Section("device", 60, device.run), Section("smoke", 60, smoke.run), Section("ops", 200, ops.run), Section("losses", 200, losses.run, lane="a"),
                    Section("weights", 200, weights.run, lane="b"),
                    Section("reproducible", 200, reproducible.run), Section("schedules_host", 300, layouts.host), Section("memory", 200, memory.arena),
                    Section("does_not_fit", 200, on_a_small_gpu), Section("dead_rank", 100, dead_rank.run), Section("search", 300, search.run),
                    Section("bench_steps", 200, bench_steps.run), Section("bench_ops", 200, bench_ops.run), Section("step_ops", 100, step_ops.run), Section("slices", 200, slices.run)]
        smaller = (mock.patch.object(losses, "STEPS", 3), mock.patch.object(losses, "PLAN", "mbs=4"),
                   mock.patch.object(weights, "STEPS", 2), mock.patch.object(layouts, "STEPS", 2), mock.patch.object(layouts, "GLOBAL_BATCH", 4),
                   mock.patch.object(layouts, "RANKS", PLANS), mock.patch.object(layouts, "ONE_RANK", ()), mock.patch.object(layouts, "BF16", ("tp=2,mbs=1,recompute=selective,attention=unfused",)),
                   mock.patch.multiple(memory, CASES=MEMORY, MODEL=str(root / "gpu" / "models" / "tiny.json")),
                   mock.patch.multiple(reproducible, STEPS=2, GLOBAL_BATCH=4, PLANS=(("mbs=4", "bf16"), ("tp=2,mbs=2", "fp32"))),
                   mock.patch.object(dead_rank, "AFTER_STEPS", 1),
                   mock.patch.multiple(search, MODEL=str(root / "gpu" / "models" / "smallest.json"), GLOBAL_BATCH=1, MAX_TRIALS=1, TIME_BUDGET="10m"), mock.patch.multiple(bench_steps, STEPS=4, WARM_UP=1, COMFORTABLE=0.0, FOR_FEW_TOKENS=0.0, AT_MOST=1.0),
                   mock.patch.multiple(slices, MODEL=str(root / "gpu" / "models" / "gpt2-check.json"), PLAN="tp=2,pp=2,mbs=1,schedule=1f1b", MICRO_BATCHES=2, STEPS=3,
                                       SLICES=("0,1", "1,0")))
        for patch in smaller:
            patch.start()
            cls.addClassCleanup(patch.stop)
        programs.logs = logs.Logs(str(pathlib.Path(directory.name) / "report"))
        cls.addClassCleanup(setattr, programs, "logs", None)
        run_sections(report, sections, context, 850, lambda text: print(text, file=sys.stderr))
        cls.sections = json.loads(pathlib.Path(report.path).read_text())["sections"]
        cls.log = (pathlib.Path(directory.name) / "report.log").read_text()

    def passed(self, name):
        section = self.sections[name]
        self.assertEqual((section["outcome"], section["why"]), ("passed", ""), section["failed_commands"])
        return section["figures"]

    def test_the_engine_reports_the_gpu(self):
        self.assertEqual(self.passed("device")["seen_by_the_engine"]["device"], "emulated GPU")

    def test_a_first_look_is_taken(self):
        figures = self.passed("smoke")
        self.assertEqual(set(figures["tests"]["tests"].values()), {"passed"})
        for model in smoke.MODELS:
            self.assertEqual(len(figures[model]["losses"]), smoke.STEPS)

    def test_every_op_of_a_step_is_timed_and_has_a_floor(self):
        entry = self.passed("step_ops")["tiny"]
        names = [row["op"].split()[0] for row in entry["ops"]]
        for name in ("matmul", "layer_norm_forward", "attention_backward", "embedding_forward", "cross_entropy", "adamw", "sum_of_squares"):
            self.assertIn(name, names)
        products = [row for row in entry["ops"] if row["op"].startswith("matmul")]
        self.assertEqual(max(row["times_a_step"] for row in products), GPT["layers"])
        self.assertTrue(all(row["median_s"] > 0 and row["over_floor"] > 0 for row in entry["ops"]))
        self.assertAlmostEqual(entry["step_s"], sum(row["a_step_s"] for row in entry["ops"]))

    def test_every_run_says_what_its_ops_chose_and_its_output_is_kept(self):
        for name in ("smoke", "losses", "memory", "bench_steps"):
            choices = self.sections[name]["choices"]
            self.assertTrue(any(choice.startswith("matmul bf16") for choice in choices), (name, choices))
        self.assertIn("==== losses: gpu_bundle/gpu_check --exec autocfg train --model", self.log)
        self.assertIn("==== ops: gpu_bundle/gpu_check --exec gpu_test", self.log)

    def test_no_test_of_the_ops_is_skipped(self):
        tests = self.passed("ops")["tests"]
        self.assertEqual({test: outcome for test, outcome in tests.items() if outcome != "passed"}, {})
        for suite in SUITES:
            self.assertTrue(any(f"/{suite}." in test for test in tests), suite)

    def test_losses_match_the_cpus_in_both_precisions(self):
        figures = self.passed("losses")
        for model in losses.MODELS:
            self.assertEqual(set(figures[model]), {"cpu_fp32", "cuda_fp32", "cuda_bf16"})
            self.assertGreater(figures[model]["cuda_bf16"]["worst_relative_difference_of_losses"], 0)

    def test_saved_weights_start_a_run_on_the_cpu(self):
        self.assertEqual(len(self.passed("weights")), 4)

    def test_two_runs_in_reproducible_mode_give_the_same_bits(self):
        figures = self.passed("reproducible")
        self.assertEqual([entry["equal"] for entry in figures.values()], [True] * 4)
        digests = {run["weights_sha256"] for entry in figures.values() for run in entry["runs"]}
        self.assertEqual(len(digests), 4, "one for each model and plan")

    def test_layouts_match_one_ranks_losses(self):
        figures = self.passed("schedules_host")
        self.assertEqual((figures["cases"], figures["cases_passed"]), (6, 6))

    def test_memory_is_as_predicted(self):
        for entry in self.passed("memory").values():
            self.assertEqual(entry["used_bytes"], entry["predicted_bytes"])

    def test_the_planner_and_the_device_both_refuse_what_does_not_fit(self):
        figures = self.passed("does_not_fit")
        taken, device = figures["memory taken by others, seen by the planner"], figures["refused by the device itself"]
        self.assertIn("the plan needs", taken["words"])
        self.assertEqual(taken["arena_bytes"], taken["planned_bytes"])
        self.assertRegex(device["words"], "the GPU has no [0-9]+ bytes left; [0-9]+ are free; the largest region is activations with [0-9]+ bytes")
        self.assertEqual((taken["exit_code"], device["exit_code"]), (1, 1))

    def test_a_dead_rank_ends_its_job(self):
        figures = self.passed("dead_rank")
        for plan, rank in dead_rank.CASES:
            self.assertIn(f"the run failed: rank {rank}: killed by signal 9 (Killed)", figures[plan]["words"])
            self.assertLess(figures[plan]["ends_within_s"], 5)
            self.assertEqual(figures[plan]["free_bytes_after"], figures[plan]["free_bytes_before"])

    def test_a_search_measures_and_keeps_its_op_times(self):
        section = self.sections["search"]
        first, again = section["figures"]["first"], section["figures"]["again"]
        self.assertEqual(section["figures"]["workers"][0]["gpus"][0]["name"], "NVIDIA Fake 100")
        self.assertIn("a step of gpt2-tiny ran on GPU 0", section["figures"]["doctor"]["cuda engine"])
        plan = next(iter(first["plans"].values()))
        self.assertEqual(plan["peak_bytes"], plan["predicted_arena_bytes"])
        self.assertTrue(all(trial["measured_over_predicted"] > 0 for trial in first["trials"].values()))
        if "not_run" in again:  # a build with uncommitted changes keeps no op times
            self.assertIn(first["build_id"], section["why"])
            self.assertEqual((section["outcome"], first["build_id"][-6:]), ("not possible", "-dirty"))
            return
        self.passed("search")
        self.assertGreater(again["reused_op_times"], 0)

    def test_steps_are_timed_and_compared(self):
        figures = self.sections["bench_steps"]["figures"]
        entry = figures["tiny"]
        self.assertEqual([turn.get("not_run") for turn in entry["turns"]], [None] * 3, self.sections["bench_steps"]["failed_commands"])
        self.assertEqual((entry["micro_batch"], len(entry["turns"][0]["losses"])), (1, 4))
        self.assertAlmostEqual(entry["ours_over_torch"], entry["ours_median_s"] / 0.02)
        self.assertEqual(len(figures["targets"]), 2)

    def test_ops_are_timed_and_one_that_fails_is_named(self):
        section = self.sections["bench_ops"]
        self.assertEqual((section["outcome"], section["why"]), ("failed", 'unknown: op_shapes: unknown kind "unheard-of"'))
        for shape in OPS[:-1]:
            self.assertIn("ours_over_torch", section["figures"][shape["name"]])
        self.assertEqual(set(section["figures"]["attention"]["ours_over_floor"]), {"forward_s", "backward_s"})
        self.assertTrue(any("attention" in choice for choice in section["figures"]["choices"]), section["figures"]["choices"])

    def test_slices_are_timed(self):
        for slice_ in ("0,1", "1,0"):
            self.assertGreater(self.passed("slices")[slice_]["per_micro_batch_s"], 0)


class Faults(unittest.TestCase):
    """What the report says of a GPU whose kernels are broken. A missing library and a refusal by NCCL need no
    emulator (gpu_check_test.py)."""

    def entry(self, section, fault, limit_s=100, more_s=0):
        """Runs one section on an emulated GPU with the fault; returns its entry in the report."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root, environment = tiny_bundle(directory.name)
        work = pathlib.Path(directory.name) / "work"
        work.mkdir()
        context = Context(str(root), str(work), None, 2, dict(environment, AUTOCFG_EMULATED_FAULT=fault, AUTOCFG_MATMUL="heuristic"))
        context.gpu = ""
        report = Report(str(pathlib.Path(directory.name) / "report.json"), {})
        with mock.patch.multiple(losses, STEPS=3, PLAN="mbs=4"):
            run_sections(report, [Section("it", limit_s, section, repeats=True)], context, limit_s + more_s, lambda _: None)
        return json.loads(pathlib.Path(report.path).read_text())["sections"]["it"]

    def test_an_illegal_address_is_named_and_spares_the_other_suites(self):
        # Each process counts its own launches. The suites of the device and of the cross-entropy have fewer.
        entry = self.entry(ops.run, "illegal_address@800")
        self.assertEqual(entry["outcome"], "failed")
        tests, repeated = entry["figures"]["tests"], entry["figures"]["repeated"]
        self.assertTrue(any("an illegal memory access" in outcome for outcome in tests.values()), tests)
        self.assertTrue(any("/OpsSuite." in test and outcome != "passed" for test, outcome in tests.items()))
        for suite in ("OpsCrossEntropySuite", "DeviceSuite"):
            ended = {outcome for test, outcome in tests.items() if f"/{suite}." in test}
            self.assertEqual(ended, {"passed"}, suite)
        self.assertIn(repeated["test"], entry["why"])
        self.assertEqual(repeated["blocking launches"]["outcome"], "exit code 0", "alone, it launches too few kernels for the fault")

    def test_an_illegal_address_in_a_run_is_named(self):
        entry = self.entry(losses.run, "illegal_address@60")
        self.assertEqual(entry["outcome"], "failed")
        self.assertIn("llama-check on cuda in fp32: exit code 1: autocfg: the run failed: rank 0: CUDA:", entry["why"])
        self.assertIn("an illegal memory access was encountered (cudaErrorIllegalAddress)", entry["why"])
        awaited = entry["figures"]["repeated"]["each op awaited"]
        self.assertRegex(" ".join(awaited["first_lines"]), "op [0-9]+ of this rank, [a-z_]+ fp32 ")

    def test_a_wrong_kernel_is_named_by_its_losses(self):
        # What some kernels do not write, the next step writes again.
        entries = [self.entry(losses.run, f"wrong@{launch}") for launch in (90, 110, 130, 150)]
        named = [entry["why"] for entry in entries if " differ from the CPU's by " in entry["why"]]
        self.assertGreaterEqual(len(named), 2, [entry["why"] for entry in entries])

    def test_a_kernel_that_hangs_costs_its_section_and_is_named(self):
        entry = self.entry(losses.run, "hang@60", limit_s=15)
        self.assertEqual(entry["outcome"], "failed")
        self.assertRegex(entry["why"], "not done within its 1[0-9] s: autocfg train --model ran for")
        self.assertTrue(any("--device cuda" in failed["command"] for failed in entry["failed_commands"]), entry["failed_commands"])


class Refusals(unittest.TestCase):
    def test_the_op_benchmark_reports_errors_in_one_line(self):
        for arguments, code in (([], 2), (["a", "b", "c"], 2), (["/no/such/file"], 1), (["--hold", "0"], 1)):
            done = subprocess.run([BUILD / "tests" / "emulated_gpu_ops_bench", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.strip().splitlines())), (code, "", 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
