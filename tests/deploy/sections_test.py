"""Tests the sections with programs that do not end, do not start, or return losses that are not numbers."""
import pathlib
import tempfile
import time
import unittest
from unittest import mock

import fake_bundle
from gpu import attention, dead_rank, losses, memory, ops, reproducible, search, weights
from gpu.context import Context
from gpu.outcome import Failure, NotPossible, OutOfTime


class Section(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root, environment = fake_bundle.make_bundle(directory.name)
        work = pathlib.Path(directory.name) / "work"
        work.mkdir()
        self.context = Context(str(root), str(work), None, 1, dict(environment, FAKE_GPU="1"))
        self.context.gpu, self.context.memory_bytes = "", 80 << 30
        self.figures = {}

    def raised(self, kind, section, seconds=60.0):
        with self.assertRaises(kind) as caught:
            section(self.context, self.figures, time.monotonic() + seconds)
        return str(caught.exception)

    def test_tests_of_the_ops_that_were_not_started_are_out_of_time(self):
        self.assertIn("was not started", self.raised(OutOfTime, ops.run, -1))
        self.assertEqual(self.figures["tests_run"], 0)

    def test_a_section_that_has_no_second_left_is_out_of_time(self):
        with mock.patch.object(memory, "refused", lambda *_, **__: "does not fit"):
            self.assertIn("no time to find a batch of gpt2-124m", self.raised(OutOfTime, memory.does_not_fit, 0.5))

    def trained(self, first):
        return {"losses": [first, 6.9, 6.8], "grad_norms": [1.0] * 3, "wall_s": 0.1, "command": "x", "run": {"arguments": [], "variables": {}}}

    def test_missing_first_losses_are_named(self):
        for before, after in ((None, 6.0), (7.0, None)):
            answer = ([before, 6.9], {"cuda": [6.0, 5.9], "cpu": [after, 5.9]}, 4, [])
            with mock.patch.object(weights, "there_and_back", lambda *_, answer=answer: answer):
                why = self.raised(Failure, weights.run)
            self.assertIn(f"gpt2-check in fp32: a first loss is not finite: {before} of training, {after} on the CPU", why)

    def test_two_runs_with_the_same_bits_pass(self):
        reproducible.run(self.context, self.figures, time.monotonic() + 60)
        self.assertEqual([entry["equal"] for entry in self.figures.values()], [True] * len(reproducible.cases()))
        runs = self.figures["gpt2-check tp=2,mbs=4 bf16"]["runs"]
        mode = "AUTOCFG_MATMUL=heuristic AUTOCFG_ATTENTION=own AUTOCFG_GPU_TRANSPORT=host gpu_bundle/gpu_check --exec autocfg train"
        self.assertEqual([run["command"].startswith(mode) for run in runs], [True, True])

    def test_runs_whose_last_bits_differ_fail(self):
        for what, words in (("losses", "two runs differ in: losses"), ("weights", "two runs differ in: weights_sha256"), ("nan", "a loss or gradient norm is not finite")):
            self.context.environment["FAKE_BITS"] = what
            self.assertIn(f"gpt2-check mbs=4 bf16: {words}", self.raised(Failure, reproducible.run))
            self.assertFalse(self.figures["gpt2-check mbs=4 bf16"]["equal"])

    def test_missing_cpu_losses_are_named(self):
        with mock.patch.object(self.context, "train", lambda *_, **__: self.trained(None)):
            self.assertIn("gpt2-check: the CPU's loss is not finite", self.raised(Failure, losses.run))

    def test_what_the_planner_refuses_and_what_the_device_refuses_are_told_apart(self):
        memory.does_not_fit(self.context, self.figures, time.monotonic() + 60)
        taken, device = self.figures["memory taken by others, seen by the planner"], self.figures["refused by the device itself"]
        self.assertEqual((taken["arena_bytes"], taken["device_bytes"]), (taken["planned_bytes"], taken["held_bytes"] + (500 << 20)))
        self.assertIn("the GPU has no", device["words"])
        self.assertLess(device["held_bytes"], taken["held_bytes"])
        self.assertIn("gpu_check --exec autocfg train --model gpt2-124m", device["command"])

    def test_a_device_that_refuses_nothing_is_not_taken_for_one_that_does(self):
        self.context.environment["FAKE_DEVICE"] = "gives"
        self.assertEqual(self.raised(NotPossible, memory.does_not_fit), "the device itself never refused: a run whose arena just fitted ran")

    def test_a_planner_that_misses_held_memory_fails(self):
        real = memory.while_held
        with mock.patch.object(memory, "while_held", lambda context, figures, held, *more: real(context, figures, 1 << 20, *more)):
            self.assertEqual(self.raised(Failure, memory.does_not_fit), "memory taken by others, seen by the planner: it ran")

    def refused_by(self, words):
        """Returns what met_by_device makes of runs with these answers, in order, and the held memory."""
        answers = iter(words)
        with mock.patch.object(memory, "while_held", lambda _context, _figures, _held, _deadline, work: work()):
            memory.met_by_device(self.context, self.figures, 100 << 20, lambda _: next(answers), time.monotonic() + 60)
        return [entry["held_bytes"] >> 20 for entry in self.figures["tries"]]

    def test_less_is_held_until_the_planner_lets_it_run(self):
        planner = "does not fit: rank 0: the plan needs 9 bytes (arena 7, device 2), 3000000 more than the 6 that a rank may use"
        self.assertEqual(self.refused_by([planner, planner, "does not fit: CUDA: allocating 5 bytes failed: out of memory (x)"]), [100, 96, 92])
        with self.assertRaisesRegex(NotPossible, "the planner refused 5 times"):
            self.refused_by([planner] * 5)
        with self.assertRaisesRegex(Failure, "expected a refusal by the planner or by the device, got: does not fit: who knows"):
            self.refused_by(["does not fit: who knows"])

    def test_a_search_on_a_gpu_is_reported(self):
        self.context.device_name, self.context.driver = "NVIDIA Fake 100", "580.1"
        search.run(self.context, self.figures, time.monotonic() + 60)
        self.assertEqual(self.figures["first"]["trials"]["studies/1/trials/1"]["measured_over_predicted"], 1.5)
        self.assertEqual((self.figures["first"]["reused_op_times"], self.figures["again"]["reused_op_times"]), (0, 100))
        self.assertEqual(self.figures["first"]["plans"]["tp=1,pp=1,dp=1,mbs=8"]["measured_overhead_bytes"], 5 * 10 ** 8)
        self.assertEqual(self.figures["workers"][0]["gpus"][0]["name"], "NVIDIA Fake 100")
        self.assertIn("gpu_check --exec autocfg search --model gpt2-124m --cluster local", self.figures["first"]["command"])

    def test_failed_checks_of_a_search_are_named(self):
        self.context.device_name, self.context.driver = "NVIDIA Fake 100", "580.1"
        for wrong, kind, words in (("estimate", Failure, "which calibration did not measure"), ("predicted", Failure, "mbs=8 is predicted, not measured"),
                                   ("forgets", Failure, "the second search timed every op again"), ("over", Failure, "1200 bytes used, 1000 planned"),
                                   ("gpu", Failure, "the inventory names 'NVIDIA Other', the driver 'NVIDIA Fake 100'"),
                                   ("dirty", NotPossible, "build 1.0\\+abc-dirty, which names no commit")):
            self.context.environment["FAKE_SEARCH"] = wrong
            pathlib.Path(self.context.work, "search.db").unlink(missing_ok=True)
            self.assertRegex(self.raised(kind, search.run), words)

    def test_a_dead_rank_ends_its_job(self):
        dead_rank.run(self.context, self.figures, time.monotonic() + 60)
        self.assertEqual({plan: entry["killed_rank"] for plan, entry in self.figures.items()}, dict(dead_rank.CASES))
        for entry in self.figures.values():
            self.assertLess(entry["ends_within_s"], 5)
            self.assertEqual((entry["exit_code"], entry["free_bytes_after"]), (1, entry["free_bytes_before"]))

    def test_a_mishandled_dead_rank_is_reported(self):
        for fault, words in (("slow", "the job ended (1\\.[5-9]|[2-9]\\.[0-9]|[0-9]{2,}\\.[0-9]) s after rank 1's death, 1 s are allowed"), ("unnamed", "rank 1 was killed, and the error does not say so"),
                             ("kept", "2147483648 bytes of the GPU's memory are not free 1 s after"), ("orphan", "ranks outlive the job: [0-9]+$")):
            self.context.environment["FAKE_DEAD"] = fault
            pathlib.Path(self.context.environment["FAKE_LOG"] + ".kept").unlink(missing_ok=True)
            with mock.patch.multiple(dead_rank, ENDS_WITHIN_S=1, FREE_WITHIN_S=1, CASES=dead_rank.CASES[:1]):
                self.assertRegex(self.raised(Failure, dead_rank.run), words)

    def refusing(self, hangs):
        """Returns a benchmark that cuDNN refuses; its `hangs`-th run uses all of the time."""
        runs, real = [], self.context.run

        def run(program, arguments, deadline, **variables):
            runs.append(program)
            if len(runs) >= hangs:
                raise OutOfTime(f"run {len(runs)} took 60 s")
            return real(program, arguments, deadline, **variables)
        self.context.environment["FAKE_CUDNN"] = "no"
        return mock.patch.object(self.context, "run", run)

    def test_a_refusal_by_cudnn_stays_where_its_log_takes_too_long(self):
        with self.refusing(hangs=2):
            why = self.raised(Failure, attention.run)
        self.assertIn("cudnn: autocfg_gpu_ops_bench: cuDNN refuses this attention; no time for the rest: run 3 took 60 s", why)
        log = next(iter(self.figures.values()))["cudnn"]["log"]
        self.assertEqual(log, ["the run that was repeated for the log did not end: run 2 took 60 s", "cuDNN wrote no log"])

    def test_attention_without_time_for_a_first_answer_is_out_of_time(self):
        with self.refusing(hangs=1):
            self.assertEqual(self.raised(OutOfTime, attention.run), "run 1 took 60 s")


if __name__ == "__main__":
    unittest.main()
