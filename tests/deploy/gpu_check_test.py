"""Runs the whole check on fake programs: without a GPU, with everything in order, and with faults."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import fake_bundle
from gpu import clocks, dead_rank, layouts, programs


class GpuCheck(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.root, self.environment = fake_bundle.make_bundle(self.directory)
        self.output = self.directory / "report.json"

    def command(self, *arguments):
        return [sys.executable, "-B", str(self.root / "gpu_check"), "--output", str(self.output), "--python", "/no/python", "--jobs", "2", *arguments]

    def with_torch(self, *arguments):
        return ["--python", str(self.directory / "tools" / "python-with-torch"), *arguments]

    def check(self, *arguments, **variables):
        """Returns (exit code, outcomes by section, output)."""
        done = subprocess.run(self.command(*arguments), env=dict(self.environment, **variables), capture_output=True, text=True, timeout=200)
        self.report = json.loads(self.output.read_text()) if self.output.exists() else {}
        outcomes = {name: entry["outcome"] for name, entry in self.report.get("sections", {}).items()}
        return done.returncode, outcomes, done.stdout + done.stderr

    def test_without_a_gpu_every_section_says_so_and_the_cpus_parts_run(self):
        code, outcomes, said = self.check()
        self.assertEqual(code, 1, said)
        self.assertEqual(set(outcomes.values()), {"not possible"}, outcomes)
        for name, entry in self.report["sections"].items():
            self.assertIn("no GPU: no CUDA-capable device is detected", entry["why"], name)
        self.assertEqual(len(self.report["sections"]["losses"]["figures"]["gpt2-check"]["cpu_fp32"]["losses"]), 20)
        self.assertEqual(len(self.report["sections"]["memory"]["figures"]), 6)
        self.assertIn("/no/python", self.report["torch"])
        self.assertIsNone(self.report["device"])
        self.assertNotIn("--device cuda", pathlib.Path(self.environment["FAKE_LOG"]).read_text())

    def test_everything_passes(self):
        results = self.directory / "results"
        results.mkdir()
        code, outcomes, said = self.check("--skip", "sanitizer,kernel_profile", "--results", str(results), *self.with_torch(), FAKE_GPU="1")
        self.assertEqual((code, set(outcomes.values())), (0, {"passed"}), said)
        self.assertEqual((self.report["device"], self.report["driver"], self.report["passed"]), ("NVIDIA Fake 100", "580.1", True))
        self.assertEqual(list(results.iterdir()), [], "a part of the sections is no result")
        host = self.report["sections"]["schedules_host"]["figures"]
        self.assertEqual(host["cases_passed"], host["cases"])
        self.assertEqual(set(self.report["sections"]["schedules_nccl"]["figures"]["a_rank_dies"]), {plan for plan, _ in dead_rank.CASES})
        self.every_figure_has_its_own_command_beside_it()

    def commands_in(self, value):
        """Returns every command that is reported with a figure."""
        if isinstance(value, dict):
            for key, item in value.items():
                if key == "commands":
                    yield from item.values() if isinstance(item, dict) else item
                elif key.endswith("command"):
                    yield item
                elif key != "failed_commands":
                    yield from self.commands_in(item)
        elif isinstance(value, list):
            for item in value:
                yield from self.commands_in(item)

    def every_figure_has_its_own_command_beside_it(self):
        sections = self.report["sections"]
        commands = {name: list(self.commands_in(entry["figures"])) for name, entry in sections.items()}
        runs = sections["schedules_host"]["figures"]["runs"]
        self.assertEqual({name: len(found) for name, found in commands.items()},
                         {"device": 3, "smoke": 4, "step_ops": 2, "ops": 1, "losses": 6, "weights": 4 * 3, "reproducible": 6 * 2, "schedules_host": len(runs), "memory": 6, "does_not_fit": 5, "dead_rank": 2, "search": 2,
                          "bench_steps": 1 + 2 * 3, "bench_ops": 2, "attention": 2 * 2, "slices": 3, "schedules_nccl": len(layouts.OVER_NCCL) + 2})
        for name, found in commands.items():
            for command in found:
                self.assertRegex(command, "^([A-Z_]+=[a-z0-9]+ )*gpu_bundle/gpu_check --exec |^python3 gpu_bundle/bench/|^nvidia-smi --query-gpu=", name)
                self.assertNotIn(str(self.directory), command)
        self.assertIn("AUTOCFG_GPU_TRANSPORT=host gpu_bundle/gpu_check --exec autocfg train --model gpu_bundle/gpu/models/gpt2-check.json --plan tp=2,mbs=1",
                      runs["gpt2-check fp32 tp=2,mbs=1"]["command"])
        self.assertEqual(sections["ops"]["check"], {field: self.report[field] for field in ("command", "time", "seed", "libraries")})

    def test_benchmarks_without_pytorch_are_measured_but_not_compared(self):
        code, outcomes, _ = self.check("--only", "bench_ops,bench_steps,slices", FAKE_GPU="1")
        self.assertEqual((code, outcomes["bench_ops"], outcomes["slices"]), (1, "not possible", "passed"))
        self.assertIn("PyTorch", self.report["sections"]["bench_ops"]["why"])
        steps = self.report["sections"]["bench_steps"]["figures"]["gpt2-1.5b"]
        self.assertAlmostEqual(steps["ours_median_s"], 0.01)
        self.assertEqual([target["name"].split(":")[0] for target in self.report["targets"]], ["gpt2-1.5b", "llama3-8b-8-layers"])

    def test_a_first_loss_that_initial_weights_do_not_give_fails(self):
        for first in ("9.5", "14.0", "nan"):
            with self.subTest(first):
                code, outcomes, _ = self.check("--only", "bench_steps", *self.with_torch(), FAKE_GPU="1", FAKE_FIRST_LOSS=first)
                self.assertEqual((code, outcomes["bench_steps"]), (1, "failed"))
                self.assertIn("gpt2-1.5b: the first loss is", self.report["sections"]["bench_steps"]["why"])
                self.assertIn("llama3-8b-8-layers: the first loss is", self.report["sections"]["bench_steps"]["why"])

    def test_benchmarks_with_pytorch(self):
        code, outcomes, said = self.check("--only", "bench_ops,bench_steps", *self.with_torch(), FAKE_GPU="1")
        self.assertEqual((code, outcomes["bench_ops"], outcomes["bench_steps"]), (0, "passed", "passed"), said)
        ops, steps = (self.report["sections"][name]["figures"] for name in ("bench_ops", "bench_steps"))
        self.assertEqual(ops["adamw_512m"]["ours_over_torch"], {"step_s": 0.5})
        self.assertEqual(set(ops["attention_llama3_8b"]["ours_over_floor"]), {"forward_s", "backward_s"})
        gpt2 = steps["gpt2-1.5b"]
        self.assertEqual(([turn["who"] for turn in gpt2["turns"]], gpt2["ours_over_torch"], gpt2["torch_compiled"]), (["ours", "torch", "ours"], 0.5, "blocks"))
        self.assertIn("busy_samples", gpt2["turns"][0]["clocks"])
        self.assertEqual(steps["llama3-8b-8-layers"]["torch_compiled"], "model")
        self.assertEqual([target["passed"] for target in self.report["targets"] if "PyTorch" in target["name"]], [True, True])

    def test_clocks_are_sampled_while_something_runs(self):
        found, marker = {}, pathlib.Path(self.environment["FAKE_LOG"] + ".smi")
        with unittest.mock.patch.dict(os.environ, PATH=self.environment["PATH"]):
            with clocks.sampled(types.SimpleNamespace(plain_environment=dict(self.environment, FAKE_GPU="1")), found):
                self.wait_until(marker.exists)
        self.assertEqual((found["busy_samples"], found["sm_mhz_min"], found["power_w_median"]), (2, 1900, 655.5))
        with unittest.mock.patch.dict(os.environ, PATH="/no/tools"), clocks.sampled(types.SimpleNamespace(plain_environment={}), found):
            pass
        self.assertIn("nvidia-smi", found["not_sampled"])

    def sample(self, until, **variables):
        """Returns what is found by an nvidia-smi, after waiting for `until(its process)`."""
        found = {}
        with unittest.mock.patch.dict(os.environ, PATH=self.environment["PATH"]):
            with clocks.sampled(types.SimpleNamespace(plain_environment=dict(self.environment, FAKE_GPU="1", **variables)), found):
                (process,) = programs._running  # an interrupted check ends it
                self.wait_until(lambda: until(process))
        self.assertEqual(programs._running, set())
        return found, process

    def test_a_failing_nvidia_smi_is_quoted(self):
        found, _ = self.sample(lambda process: process.poll() is not None, FAKE_NO_SMI="1")
        self.assertEqual(found["busy_samples"], 0)
        self.assertRegex(found["not_sampled"], "^nvidia-smi ended by itself, exit code 9: NVIDIA-SMI has failed because it couldn't communicate")

    def test_an_nvidia_smi_that_cannot_be_killed_costs_seconds_only(self):
        marker = pathlib.Path(self.environment["FAKE_LOG"] + ".smi")
        with unittest.mock.patch.multiple(programs, end_group=lambda _: None, DIES_WITHIN_S=0.2):
            found, process = self.sample(lambda _: marker.exists())
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.kill)
        self.assertEqual((found["busy_samples"], found["not_sampled"]), (2, "nvidia-smi was killed, but it does not end"))

    def test_a_micro_batch_that_pytorch_cannot_take_is_halved_on_both_sides(self):
        self.check("--only", "bench_steps", "--torch-compile", "model", *self.with_torch(), FAKE_GPU="1", FAKE_TORCH="fits-8")
        steps = self.report["sections"]["bench_steps"]["figures"]["gpt2-1.5b"]
        self.assertEqual((steps["micro_batch"], list(steps["too_large"]), steps["torch_compiled"]), (8, ["32", "16"], "model"))
        self.assertIn("ours_over_torch", steps)
        self.assertEqual(steps["planned_bytes"], 10 ** 6 + 8 * 10 ** 9)

    def test_a_micro_batch_that_we_cannot_take_is_halved_on_both_sides(self):
        self.check("--only", "bench_steps", *self.with_torch(), FAKE_GPU="1", FAKE_OURS="fits-8")
        steps = self.report["sections"]["bench_steps"]["figures"]["gpt2-1.5b"]
        self.assertEqual((steps["micro_batch"], list(steps["too_large"])), (8, ["32", "16"]))
        self.assertTrue(all("--micro-batch 8" in turn["command"] or "mbs=8" in turn["command"] for turn in steps["turns"]))
        self.assertIn("ours: exit code 1: autocfg: does not fit: rank 0: CUDA: allocating", steps["too_large"]["16"])
        self.assertIn("ours_over_torch", steps)

    def test_without_torch_compile_the_target_is_not_met(self):
        self.check("--only", "bench_steps", *self.with_torch(), FAKE_GPU="1", FAKE_TORCH="uncompiled")
        section = self.report["sections"]["bench_steps"]
        self.assertIn("torch.compile failed, PyTorch ran without it: no C compiler", section["why"])
        self.assertEqual(section["figures"]["gpt2-1.5b"]["ours_over_torch_uncompiled"], 0.5)
        self.assertNotIn("ours_over_torch", section["figures"]["gpt2-1.5b"])

    def test_what_pytorch_did_before_its_time_was_over_is_kept(self):
        _, outcomes, said = self.check("--only", "bench_ops", "--total", "12", *self.with_torch(), FAKE_GPU="1", FAKE_TORCH="slow")
        self.assertEqual(outcomes["bench_ops"], "not possible", said)
        section = self.report["sections"]["bench_ops"]
        self.assertIn("ours_over_torch", section["figures"]["attention_llama3_8b"])
        self.assertIn("ours_over_floor", section["figures"]["adamw_512m"])
        self.assertNotIn("torch", section["figures"]["adamw_512m"])
        self.assertIn("gpu_ops_torch.py", section["failed_commands"][-1]["command"])

    def test_an_op_that_cannot_be_timed_costs_no_other(self):
        code, outcomes, _ = self.check("--only", "bench_ops", *self.with_torch(), FAKE_GPU="1", FAKE_BAD_OP="cross_entropy_gpt2_1.5b")
        section = self.report["sections"]["bench_ops"]
        self.assertEqual((code, outcomes["bench_ops"], section["why"]), (1, "failed", "cross_entropy_gpt2_1.5b: no such kernel"))
        self.assertEqual(section["figures"]["adamw_512m"]["ours_over_torch"], {"step_s": 0.5})

    def test_a_benchmark_that_fails_after_its_answer_has_failed_and_its_answer_is_kept(self):
        code, outcomes, _ = self.check("--only", "bench_ops", *self.with_torch(), FAKE_GPU="1", FAKE_ENDS="any")
        section = self.report["sections"]["bench_ops"]
        self.assertEqual((code, outcomes["bench_ops"]), (1, "failed"))
        self.assertEqual(section["why"], "autocfg_gpu_ops_bench: exit code 134 after its answer: autocfg_gpu_ops_bench: an illegal memory access")
        self.assertEqual(section["figures"]["adamw_512m"]["ours_over_torch"], {"step_s": 0.5})

    def test_rates_of_a_benchmark_that_fails_after_its_answer_are_not_taken(self):
        self.check("--only", "bench_steps", FAKE_GPU="1", FAKE_ENDS="matmul_8192,copy_2gib")
        section = self.report["sections"]["bench_steps"]
        self.assertEqual(section["outcome"], "failed")
        self.assertIn("exit code 134 after its answer", section["why"])

    def test_pytorch_that_fails_after_its_steps_is_reported(self):
        self.check("--only", "bench_steps", *self.with_torch(), FAKE_GPU="1", FAKE_TORCH="ends")
        turns = self.report["sections"]["bench_steps"]["figures"]["gpt2-1.5b"]["turns"]
        self.assertEqual([turn.get("why") for turn in turns], [None, "exit code 134: terminate called", None])
        self.assertEqual(turns[1]["median_s"], 0.02)

    def test_without_nvidia_smi_the_engine_says_what_the_gpu_is(self):
        code, outcomes, said = self.check("--only", "does_not_fit", FAKE_GPU="1", FAKE_NO_SMI="1")
        self.assertEqual((code, outcomes["does_not_fit"], self.report["device"]), (0, "passed", "NVIDIA Fake 100"), said)
        self.assertIn("communicate", self.report["sections"]["device"]["figures"]["nvidia_smi"])

    def test_attention_that_cudnn_refuses_is_explained_in_its_words(self):
        code, outcomes, _ = self.check("--only", "attention", FAKE_GPU="1", FAKE_CUDNN="no")
        self.assertEqual((code, outcomes["attention"]), (1, "failed"))
        self.assertIn("cudnn: autocfg_gpu_ops_bench: cuDNN refuses this attention", self.report["sections"]["attention"]["why"])
        entry = self.report["sections"]["attention"]["figures"]["attention_llama3_8b"]
        self.assertEqual(entry["cudnn"]["log"], ["Warning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: too wide"])
        self.assertEqual(entry["own"]["choices"], ["attention: by own"])

    def test_attention_that_is_slower_by_what_the_engine_takes_is_named(self):
        code, outcomes, _ = self.check("--only", "attention", FAKE_GPU="1", FAKE_CUDNN="slow")
        self.assertEqual((code, outcomes["attention"]), (1, "failed"))
        self.assertIn("attention_llama3_8b: forward: cudnn, which the engine chooses, takes 3.00 times", self.report["sections"]["attention"]["why"])
        self.assertEqual(self.check("--only", "attention", FAKE_GPU="1")[:2], (0, {**outcomes, "attention": "passed"}))

    def test_a_full_run_leaves_a_result_with_the_devices_name(self):
        results = self.directory / "results"
        results.mkdir()
        self.check("--results", str(results), FAKE_GPU="1", FAKE_NCCL="no")
        self.assertEqual([file.name for file in results.iterdir()], ["gpu_nvidia_fake_100.json"])

    def test_a_layout_that_differs_is_named(self):
        code, outcomes, _ = self.check("--only", "schedules_host", FAKE_GPU="1", FAKE_WRONG="tp=4,mbs=1")
        self.assertEqual((code, outcomes["schedules_host"]), (1, "failed"))
        self.assertIn("tp=4,mbs=1: losses differ from one rank's by 1.00e-03", self.report["sections"]["schedules_host"]["why"])

    def test_losses_that_differ_from_the_cpus_fail(self):
        code, outcomes, _ = self.check("--only", "losses", FAKE_GPU="1", FAKE_WRONG="tp=1,pp=1,dp=1,mbs=4")
        self.assertEqual((code, outcomes["losses"]), (1, "failed"))
        self.assertIn("fp32", self.report["sections"]["losses"]["why"])
        self.assertNotIn("bf16", self.report["sections"]["losses"]["why"])

    def test_refusal_by_nccl_is_not_possible_and_quoted(self):
        code, outcomes, _ = self.check("--only", "schedules_nccl", FAKE_GPU="1", FAKE_NCCL="no")
        self.assertEqual((code, outcomes["schedules_nccl"]), (0, "not possible"))
        self.assertIn("Duplicate GPU detected", self.report["sections"]["schedules_nccl"]["why"])

    def test_a_failing_op_is_named(self):
        code, _, _ = self.check("--only", "ops", FAKE_GPU="1", FAKE_BAD_TEST="Gpu/OpsSuite.Matmul/cuda_bf16")
        self.assertEqual(code, 1)
        self.assertIn("1 of 3 tests did not pass: Gpu/OpsSuite.Matmul/cuda_bf16", self.report["sections"]["ops"]["why"])

    def test_a_crashing_op_is_named(self):
        test = "Gpu/OpsSuite.Matmul/cuda_fp32"
        code, _, _ = self.check("--only", "ops", FAKE_GPU="1", FAKE_BAD_TEST=test, FAKE_CRASH=test)
        self.assertEqual(code, 1)
        tests = self.report["sections"]["ops"]["figures"]["tests"]
        self.assertEqual(tests, {"Gpu.IsThere": "passed", test: "did not end", "Gpu/OpsSuite.Matmul/cuda_bf16": "not run"})

    def test_the_first_failing_test_is_repeated_with_blocking_launches_and_under_memcheck(self):
        tool = self.directory / "tools" / "compute-sanitizer"
        tool.write_text('#!/bin/sh\necho "$CUDA_LAUNCH_BLOCKING asked: $*"\necho "========= Invalid __global__ write"\nexit 9\n')
        tool.chmod(0o755)
        test = "Gpu/OpsSuite.Matmul/cuda_fp32"
        self.check("--only", "ops", FAKE_GPU="1", FAKE_BAD_TEST=test)
        repeated = self.report["sections"]["ops"]["figures"]["repeated"]
        self.assertEqual(repeated["test"], test)
        self.assertIn("CUDA_LAUNCH_BLOCKING=1", repeated["blocking launches"]["command"])
        self.assertIn(f"[ RUN      ] {test}", repeated["blocking launches"]["first_lines"])
        self.assertEqual(repeated["blocking launches"]["outcome"], "exit code 1")
        self.assertEqual((repeated["memcheck"]["outcome"], repeated["memcheck"]["first_lines"][1]), ("exit code 9", "========= Invalid __global__ write"))
        self.assertIn(f"--gtest_filter={test}", repeated["memcheck"]["first_lines"][0])

    def test_the_first_wrong_run_is_repeated_with_each_op_awaited_and_under_memcheck(self):
        tool = self.directory / "tools" / "compute-sanitizer"
        tool.write_text('#!/bin/sh\necho "asked: $*"\nexit 9\n')
        tool.chmod(0o755)
        code, outcomes, _ = self.check("--only", "losses,weights", FAKE_GPU="1", FAKE_WRONG="tp=1,pp=1,dp=1,mbs=4")
        self.assertEqual((code, outcomes["losses"]), (1, "failed"))
        repeated = self.report["sections"]["losses"]["figures"]["repeated"]
        self.assertEqual(set(repeated), {"each op awaited", "memcheck"})
        self.assertRegex(repeated["each op awaited"]["command"], "^CUDA_LAUNCH_BLOCKING=1 AUTOCFG_CUDA_SYNC=ops gpu_check|AUTOCFG_CUDA_SYNC=ops autocfg train .*--device cuda")
        self.assertEqual((repeated["each op awaited"]["outcome"], repeated["memcheck"]["outcome"]), ("exit code 0", "exit code 9"))
        self.assertRegex(repeated["memcheck"]["first_lines"][0], "asked: --tool memcheck --target-processes all .* train --model .*--device cuda")

    def test_only_one_failure_is_repeated(self):
        _, outcomes, _ = self.check("--only", "losses,memory", FAKE_GPU="1", FAKE_FAIL="cuda")
        self.assertEqual((outcomes["losses"], outcomes["memory"]), ("failed", "failed"))
        figures = [self.report["sections"][name]["figures"] for name in ("losses", "memory")]
        self.assertEqual(["repeated" in each for each in figures], [True, False])
        self.assertIn("as it was told", figures[0]["repeated"]["each op awaited"]["first_lines"][0])

    def test_a_failing_run_over_nccl_is_repeated_with_its_log(self):
        self.check("--only", "schedules_nccl", FAKE_GPU="1", FAKE_NCCL="no")
        refusal = self.report["sections"]["schedules_nccl"]["figures"]["with NCCL's log"]
        self.assertIn("NCCL_DEBUG=INFO", refusal["command"])
        self.assertIn("Duplicate GPU detected", refusal["first_lines"][0])
        self.check("--only", "schedules_nccl", FAKE_GPU="1", FAKE_FAIL=layouts.OVER_NCCL[-1])
        repeated = self.report["sections"]["schedules_nccl"]["figures"]["repeated"]
        self.assertIn("NCCL_DEBUG=INFO", repeated["each op awaited"]["command"])

    def test_what_programs_wrote_is_kept_beside_the_report(self):
        self.check("--only", "losses", FAKE_GPU="1")
        log = self.directory / "report.log"
        first = log.read_text()
        self.assertIn("==== device: gpu_bundle/gpu_check --exec gpu_test", first)
        self.assertIn("==== losses: gpu_bundle/gpu_check --exec autocfg train", first)
        self.assertIn("op choice: matmul bf16: the fastest of 8 algorithms", first)
        self.assertEqual(self.report["sections"]["losses"]["choices"], ["matmul bf16: the fastest of 8 algorithms"])
        self.assertEqual(self.report["outputs_not_kept"], 0)
        self.check("--only", "weights", "--resume", FAKE_GPU="1")
        self.assertTrue(log.read_text().startswith(first), "a call that goes on adds to it")
        self.check("--only", "device", FAKE_GPU="1")
        self.assertNotIn("losses", log.read_text(), "a new check has a new one")

    def test_versions_of_the_libraries_are_in_every_section(self):
        self.check("--only", "losses", FAKE_GPU="1")
        for name in ("device", "losses"):
            versions = self.report["sections"][name]["check"]["libraries"]
            self.assertEqual(set(versions), {"libcuda.so.1", "libfakecudart.so.13", "libfakecudnn.so.9"})
            self.assertIn("libcuda.so.1", versions["libcuda.so.1"]["not_loaded"])

    def test_a_first_look_names_what_does_not_run(self):
        code, outcomes, _ = self.check("--only", "smoke", FAKE_GPU="1")
        self.assertEqual((code, outcomes["smoke"]), (0, "passed"))
        figures = self.report["sections"]["smoke"]["figures"]
        self.assertEqual(figures["tests"]["tests"], {"Gpu.IsThere": "passed", "Gpu/OpsSuite.Matmul/cuda_fp32": "passed"})
        self.assertEqual(set(figures), {"tests", "products", "gpt2-check", "llama-check"})
        code, _, _ = self.check("--only", "smoke", FAKE_GPU="1", FAKE_FAIL="cuda", FAKE_BAD_OP="copy_2gib", FAKE_BAD_TEST="Gpu.IsThere")
        self.assertEqual(code, 1)

    def test_ops_of_a_step_that_fail_are_named(self):
        code, outcomes, said = self.check("--only", "step_ops", FAKE_GPU="1")
        self.assertEqual((code, outcomes["step_ops"]), (0, "passed"), said)
        entry = self.report["sections"]["step_ops"]["figures"]["llama3-8b-8-layers"]
        self.assertEqual([row["op"] for row in entry["ops"]], ["rope bf16", "matmul bf16"])
        self.assertAlmostEqual(entry["step_s"], 0.1)
        self.check("--only", "step_ops", FAKE_GPU="1", FAKE_BAD_OP="rope")
        self.assertIn("gpt2-1.5b: rope bf16: no such kernel", self.report["sections"]["step_ops"]["why"])

    def test_a_profile_needs_its_tool_and_the_right_to_use_it(self):
        _, outcomes, _ = self.check("--only", "kernel_profile", FAKE_GPU="1")
        self.assertEqual(outcomes["kernel_profile"], "not possible")
        self.assertEqual(self.report["sections"]["kernel_profile"]["why"], "ncu is not installed on this machine")
        tool = self.directory / "tools" / "ncu"
        tool.write_text('#!/bin/sh\necho "==ERROR== ERR_NVGPUCTRPERM - no permission" >"$2"\nexit 1\n')
        tool.chmod(0o755)
        _, outcomes, _ = self.check("--only", "kernel_profile", FAKE_GPU="1")
        self.assertEqual(outcomes["kernel_profile"], "not possible")
        self.assertIn("no permission", self.report["sections"]["kernel_profile"]["why"])
        columns = "ID,Kernel Name,gpu__time_duration.sum,dram__bytes.sum,sm__cycles_active.avg.pct_of_peak_sustained_elapsed,launch__registers_per_thread"
        rows = [columns.split(","), ["", "", "ns", "byte", "%", ""], ["0", "RopeKernel", "2000", "1000", "50", "32"]]
        (self.directory / "ncu.csv").write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows))
        tool.write_text(f'#!/bin/sh\ncp "{self.directory}/ncu.csv" "$2"\n')
        _, outcomes, said = self.check("--only", "kernel_profile", FAKE_GPU="1")
        self.assertEqual(outcomes["kernel_profile"], "passed", said)
        kernels = self.report["sections"]["kernel_profile"]["figures"]["llama3-8b-8-layers"]["kernels"]
        self.assertEqual(kernels["RopeKernel"]["launches"], 1)

    def test_a_driver_that_does_not_know_all_fields_says_the_least(self):
        code, _, said = self.check("--only", "device", FAKE_GPU="1", FAKE_OLD_DRIVER="1")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.report["sections"]["device"]["figures"]["gpus"], [{"name": "NVIDIA Fake 100", "driver_version": "580.1", "memory.total": "81920"}])

    def test_benchmarks_that_fail_are_named_one_by_one(self):
        code, outcomes, _ = self.check("--only", "bench_steps", FAKE_GPU="1", FAKE_FAIL="--data")
        self.assertEqual((code, outcomes["bench_steps"]), (1, "failed"))
        for name in ("gpt2-1.5b", "llama3-8b-8-layers"):
            self.assertIn(name, self.report["sections"]["bench_steps"]["why"])

    def test_missing_libraries_are_named(self):
        code, outcomes, _ = self.check("--only", "ops", FAKE_GPU="1", LD_LIBRARY_PATH="")
        self.assertEqual((code, outcomes["device"], outcomes["ops"]), (1, "failed", "not possible"))
        self.assertIn("libfakecudart.so.13", self.report["sections"]["device"]["why"])

    def test_a_library_that_is_opened_at_run_time_may_be_missing(self):
        code, outcomes, said = self.check("--only", "device", FAKE_GPU="1")
        self.assertEqual((code, outcomes["device"]), (0, "passed"), said)
        self.assertIn("libfakecudnn.so.9", self.report["sections"]["device"]["figures"]["libraries_not_found"])

    def test_a_run_that_hangs_costs_its_section_only(self):
        code, outcomes, said = self.check("--only", "losses,slices", "--total", "20", FAKE_GPU="1", FAKE_HANG="cuda")
        self.assertEqual((code, outcomes["losses"]), (1, "failed"), said)
        self.assertIn("not done within", self.report["sections"]["losses"]["why"])
        self.assertEqual(outcomes["slices"], "not run")

    def start(self, *arguments, **variables):
        return subprocess.Popen(self.command(*arguments), env=dict(self.environment, **variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_until(self, there):
        for _ in range(600):
            if there():
                return
            time.sleep(0.1)
        self.fail("it did not come about")

    def test_a_terminated_check_leaves_what_it_has(self):
        check = self.start("--only", "losses,slices", FAKE_GPU="1", FAKE_HANG="cuda")
        log = pathlib.Path(self.environment["FAKE_LOG"])
        self.wait_until(lambda: log.exists() and "--device cuda" in log.read_text())
        check.send_signal(signal.SIGTERM)
        self.assertEqual(check.wait(60), 143)
        sections = json.loads(self.output.read_text())["sections"]
        self.assertEqual((sections["device"]["outcome"], sections["slices"]["outcome"]), ("passed", "not run"))
        self.assertEqual(sections["losses"]["why"], "the check ended while it was under way")

    def test_a_killed_check_leaves_what_a_section_had_found(self):
        check = self.start("--only", "memory", FAKE_GPU="1", FAKE_HANG="cuda")

        def found():
            try:
                return json.loads(self.output.read_text())["sections"]["memory"]["figures"]
            except (OSError, ValueError):
                return None
        self.wait_until(found)
        check.kill()
        check.wait(60)
        self.assertEqual(next(iter(found().values()))["predicted_bytes"], 10 ** 6 + 8 * 10 ** 9)

    def test_a_failed_program_leaves_its_command_and_its_last_words(self):
        self.check("--only", "bench_steps", FAKE_GPU="1", FAKE_FAIL="--data")
        failed = self.report["sections"]["bench_steps"]["failed_commands"]
        self.assertEqual(len(failed), 2)
        self.assertIn("autocfg train --model", failed[0]["command"])
        self.assertEqual((failed[0]["outcome"], failed[0]["last_lines"]), ("exit code 1", ["autocfg: the run failed: as it was told"]))

    def test_resuming_keeps_what_passed(self):
        self.check("--only", "losses,weights", FAKE_GPU="1", FAKE_WRONG="mbs=4")
        code, outcomes, said = self.check("--only", "losses,weights", "--resume", FAKE_GPU="1")
        self.assertEqual((code, outcomes["losses"], outcomes["weights"]), (0, "passed", "passed"), said)
        self.assertIn("losses: passed, kept from an earlier run", said)
        self.assertEqual(len(self.report["earlier_runs"]), 1)
        self.assertNotIn("--resume", self.report["sections"]["losses"]["check"]["command"])
        self.assertIn("--resume", self.report["sections"]["weights"]["check"]["command"])

    def test_what_failed_in_an_earlier_run_is_not_all_passed(self):
        self.check("--only", "losses,weights,schedules_nccl", FAKE_GPU="1", FAKE_WRONG="mbs=4", FAKE_NCCL="no")
        code, outcomes, said = self.check("--only", "losses", "--resume", FAKE_GPU="1")
        self.assertEqual((code, outcomes["losses"], outcomes["weights"], self.report["passed"]), (1, "passed", "failed", False), said)
        self.assertIn("not all passed", said)
        code, outcomes, said = self.check("--only", "weights", "--resume", FAKE_GPU="1")
        self.assertEqual((code, outcomes["schedules_nccl"], self.report["passed"]), (0, "not possible", True), said)

    def test_two_parts_make_a_whole_result(self):
        """The procedure of docs/gpu.md: one part, then the rest with --resume."""
        results = self.directory / "results"
        results.mkdir()
        self.check("--only", "correctness", "--skip", "smoke,ops,sanitizer,losses,weights,reproducible,schedules_host,memory,does_not_fit,dead_rank", FAKE_GPU="1")
        self.assertEqual(set(self.report["sections"]), {"device", "search"})
        fake_bundle.write_program(self.directory / "tools" / "compute-sanitizer", "import sys\nsys.exit('Device not supported')\n")
        code, outcomes, said = self.check("--resume", "--results", str(results), *self.with_torch(), FAKE_GPU="1")
        self.assertEqual((code, outcomes["sanitizer"]), (0, "not possible"), said)
        self.assertIn("search: passed, kept from an earlier run", said)
        copy = json.loads((results / "gpu_nvidia_fake_100.json").read_text())
        self.assertEqual(set(outcomes), set(copy["sections"]))
        self.assertEqual(copy["sections"]["bench_steps"]["figures"]["rate"]["of"], "matmul_8192, ours, of bench_ops")
        self.assertIn("gpu_nvidia_fake_100.json", said)

    def test_the_better_rate_of_both_sides_is_the_reports(self):
        python = self.directory / "tools" / "python-with-torch"
        python.write_text(python.read_text().replace('"median_s": 0.004', '"median_s": 0.001'))
        self.check("--only", "bench_steps,bench_ops", *self.with_torch(), FAKE_GPU="1")
        figures = self.report["sections"]["bench_steps"]["figures"]
        self.assertEqual(figures["rate"]["of"], "matmul_8192, PyTorch's, of bench_ops")
        entry = figures["gpt2-1.5b"]
        self.assertAlmostEqual(entry["utilisation"], entry["model_flops"] / 0.01 / (2 * 8192 ** 3 / 0.001))
        self.assertEqual([target["measured"] for target in self.report["targets"]], [target["measured"] for target in figures["targets"]])

    def test_a_report_of_other_programs_is_put_aside(self):
        self.check("--only", "losses", FAKE_GPU="1")
        manifest = self.root / "manifest.json"
        manifest.write_text(manifest.read_text().replace("fake-1", "fake-2"))
        code, outcomes, said = self.check("--only", "weights", "--resume", FAKE_GPU="1")
        self.assertEqual((code, outcomes), (0, {"device": "passed", "weights": "passed"}), said)
        self.assertEqual(json.loads(pathlib.Path(f"{self.output}.earlier").read_text())["sections"]["losses"]["outcome"], "passed")

    def test_wrong_arguments_and_no_bundle(self):
        self.assertEqual(self.check("--only", "nothing")[0], 2)
        (self.root / "manifest.json").unlink()
        code, _, said = self.check()
        self.assertEqual(code, 2)
        self.assertIn("is not a bundle", said)
        self.assertEqual(len(said.strip().splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
