"""What sections say where programs do not end, are not started, or answer with losses that are none."""
import pathlib
import tempfile
import time
import unittest
from unittest import mock

import fake_bundle
from gpu import attention, losses, memory, ops, weights
from gpu.context import Context
from gpu.outcome import Failure, OutOfTime


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
        with mock.patch.object(memory, "refused", lambda *_, **__: None):
            self.assertIn("no time to find a batch of gpt2-124m", self.raised(OutOfTime, memory.does_not_fit, 0.5))

    def trained(self, first):
        return {"losses": [first, 6.9, 6.8], "grad_norms": [1.0] * 3, "wall_s": 0.1}

    def test_first_losses_that_are_none_are_named(self):
        for before, after in ((None, 6.0), (7.0, None)):
            answer = ([before, 6.9], {"cuda": [6.0, 5.9], "cpu": [after, 5.9]}, 4)
            with mock.patch.object(weights, "there_and_back", lambda *_, answer=answer: answer):
                why = self.raised(Failure, weights.run)
            self.assertIn(f"gpt2-check in fp32: a first loss is not finite: {before} of training, {after} on the CPU", why)

    def test_the_cpus_losses_that_are_none_are_named(self):
        with mock.patch.object(self.context, "train", lambda *_, **__: self.trained(None)):
            self.assertIn("gpt2-check: the CPU's loss is not finite", self.raised(Failure, losses.run))

    def refusing(self, hangs):
        """A benchmark that cuDNN refuses, the `hangs`-th run of which takes all of the time and leaves none."""
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
