"""Tests that programs end at their limit with all processes that they started, and that start failures are
reported."""
import os
import tempfile
import time
import unittest
from unittest import mock

import fake_bundle  # noqa: F401: the path to deploy/
from gpu import logs, programs
from gpu.outcome import OutOfTime


def soon():
    return time.monotonic() + 60


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Run(unittest.TestCase):
    def test_returns_the_output(self):
        done = programs.run(["/bin/sh", "-c", "echo out; echo first >&2; echo last >&2; exit 3"], soon())
        self.assertEqual((done.code, done.out, done.last_words()), (3, "out\n", "last"))

    def test_a_missing_program_is_named(self):
        done = programs.run(["/no/such/program"], soon())
        self.assertEqual(done.code, 127)
        self.assertIn("/no/such/program", done.last_words())

    def test_the_whole_group_is_killed_at_the_limit(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "child")
            with self.assertRaises(OutOfTime):
                programs.run(["/bin/sh", "-c", f"sleep 300 & echo $! >{file}; wait"], soon(), limit_s=2)
            with open(file, encoding="utf-8") as text:
                child = int(text.read())
        for _ in range(100):
            if not alive(child):
                break
            time.sleep(0.05)
        self.assertFalse(alive(child))

    def test_output_before_the_limit_is_kept(self):
        failed = programs.take_notes().failures
        with self.assertRaises(OutOfTime) as late:
            programs.run(["/bin/sh", "-c", "echo half; echo why >&2; sleep 300"], soon(), limit_s=2)
        self.assertEqual((late.exception.out, late.exception.err), ("half\n", "why\n"))
        self.assertEqual((failed[0]["outcome"], failed[0]["last_lines"]), ("ended after 2 s", ["half", "why"]))

    def test_choices_of_ops_are_noted_once(self):
        notes = programs.take_notes()
        programs.run(["/bin/sh", "-c", "for i in 1 2; do echo '[debug] op choice: matmul: the only algorithm' >&2; done; echo op choice: no log"], soon())
        self.assertEqual(notes.choices, ["matmul: the only algorithm"])

    def test_whole_outputs_are_kept(self):
        with tempfile.TemporaryDirectory() as directory:
            kept = logs.Logs(os.path.join(directory, "report"))
            with mock.patch.object(programs, "logs", kept):
                programs.take_notes("losses")
                programs.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], soon(), shown="shown")
            with open(os.path.join(directory, "report.log"), encoding="utf-8") as file:
                self.assertRegex(file.read(), r"^==== losses: shown\n==== exit code 3, \d+\.\d s\nout\n\nerr\n$")

    def test_nothing_starts_after_the_deadline(self):
        with self.assertRaises(OutOfTime):
            programs.run(["/bin/true"], time.monotonic() - 1)

    def test_parallel_work_keeps_its_order_and_its_errors(self):
        def work(task):
            if task == 3:
                raise ValueError("three")
            return task * task
        results = programs.in_parallel(4, [1, 2, 3, 4, 5], work)
        self.assertEqual([task for task, _ in results], [1, 2, 3, 4, 5])
        self.assertEqual([result for task, result in results if task != 3], [1, 4, 16, 25])
        self.assertIsInstance(results[2][1], ValueError)

    def test_a_started_program_runs_until_it_is_stopped(self):
        process = programs.start(["/bin/sh", "-c", "echo held; sleep 300"], dict(os.environ), "/")
        self.assertEqual(programs.first_line(process, 30), "held")
        self.assertIsNone(process.poll())
        self.assertTrue(programs.stop(process))
        self.assertIsNotNone(process.poll())

    def test_a_program_that_does_not_end_is_left_behind(self):
        process = programs.start(["/bin/sh", "-c", "sleep 300"], dict(os.environ), "/")
        self.assertEqual(programs.first_line(process, 0.1), "no output within 0 s")
        with mock.patch.multiple(programs, end_group=lambda _: None, DIES_WITHIN_S=0.1):
            self.assertFalse(programs.stop(process))
        programs.end_group(process)
        process.wait(60)
        process.stdout.close()
        self.assertNotIn(process, programs._running)


if __name__ == "__main__":
    unittest.main()
