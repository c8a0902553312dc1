"""Tests how the section interprets compute-sanitizer's answers: errors found, refusals, and that a tool under
which no test ran never passes."""
import time
import unittest
from unittest import mock

import fake_bundle  # noqa: F401: the path to deploy/
from gpu import compute_sanitizer, sanitizer
from gpu.outcome import Failure, NotPossible, OutOfTime
from gpu.programs import Done

TESTS = 32  # two per batch
LISTED = "Gpu/OpsSuite.\n" + "".join(f"  Op{index}/cuda_fp32\n" for index in range(TESTS))
SUMMARY = {"memcheck": "========= ERROR SUMMARY: {} errors\n", "racecheck": "========= RACECHECK SUMMARY: {} hazards displayed\n"}
BREAK = "========= Internal Sanitizer Error: The Sanitizer failed to handle a hardware exception.\n"


class Tool:
    """Returns a context whose compute-sanitizer answers the n-th batch of a tool with `answer(tool, n,
    tests)`: (exit code, output)."""

    def __init__(self, answer):
        self.answer, self.asked = answer, {"memcheck": 0, "racecheck": 0}
        self.variables = {"memcheck": [], "racecheck": []}  # the environment of each run
        self.watches_all = {"memcheck": [], "racecheck": []}  # whether each run watches every kernel

    def needs_gpu(self):
        pass

    environment = {"LD_LIBRARY_PATH": "/bundle/lib"}

    def program(self, name):
        return f"/bundle/{name}"

    def shown(self, words):
        return " ".join(words)

    def run(self, program, arguments, _deadline, **variables):
        if program == "gpu_test":
            return Done([program], 0, LISTED, "", 0.1)
        tool, tests = arguments[1], arguments[-1].removeprefix("--gtest_filter=").split(":")
        code, text = self.answer(tool, self.asked[tool], tests)
        self.asked[tool] += 1
        self.variables[tool].append(variables)
        self.watches_all[tool].append("--kernel-name" not in arguments)
        return Done([program], code, text, "", 0.1)


def lines(outcome, tests):
    return "".join(f"[ RUN      ] {test}\n{outcome} {test} (1 ms)\n" for test in tests)


def good(tool, _batch, tests):
    return 0, lines("[       OK ]", tests) + SUMMARY[tool].format(0)


def skipped(said):
    def answer(tool, _batch, tests):
        text = "".join(f"[ RUN      ] {test}\nops_test.cc:17: Skipped\nno CUDA-capable device is detected\n\n[  SKIPPED ] {test} (0 ms)\n" for test in tests)
        return 0, said + text + SUMMARY[tool].format(0)
    return answer


class Sections(unittest.TestCase):
    def check(self, answer):
        self.figures, self.tool = {}, Tool(answer)
        with mock.patch.object(compute_sanitizer, "find", lambda: "/tools/compute-sanitizer"):
            sanitizer.run(self.tool, self.figures, time.monotonic() + 60)

    def test_only_racecheck_runs_without_the_librarys_epilogues(self):
        self.check(good)
        self.assertEqual(self.tool.variables, {"memcheck": [{}] * sanitizer.BATCHES,
                                               "racecheck": [{"AUTOCFG_MATMUL": "apart"}] * sanitizer.BATCHES})
        self.assertIn("AUTOCFG_MATMUL=apart /tools", self.figures["racecheck"]["command"])

    def refused(self, kind, answer):
        with self.assertRaises(kind) as raised:
            self.check(answer)
        return str(raised.exception)

    def test_all_tests_under_both_tools(self):
        self.check(good)
        self.assertEqual({tool: self.figures[tool]["tests_run"] for tool in sanitizer.TOOLS}, {"memcheck": TESTS, "racecheck": TESTS})

    def test_what_was_found_counts_though_a_later_batch_is_refused_or_says_nothing(self):
        for later in ((1, "========= Error: Device not supported\n"), (139, "Segmentation fault\n")):
            def answer(tool, batch, tests):
                if tool == "memcheck" and batch == 0:
                    return 9, lines("[       OK ]", tests) + SUMMARY[tool].format(3)
                return later
            why = self.refused(Failure, answer)
            self.assertIn("memcheck: 3 errors, exit code 9, in Gpu/OpsSuite.Op0/cuda_fp32", why)
            self.assertIn(f"racecheck: {'' if 'not supported' in later[1] else 'no summary: '}{later[1].strip()}", why)

    def test_what_memcheck_found_counts_where_racecheck_is_refused(self):
        def answer(tool, _batch, tests):
            return (9, lines("[       OK ]", tests) + SUMMARY[tool].format(1)) if tool == "memcheck" else (1, "========= Error: Device not supported\n")
        self.assertIn("memcheck: 1 errors", self.refused(Failure, answer))

    def test_a_missing_summary_after_tests_ran_is_a_failure(self):
        def answer(tool, batch, tests):
            return (139, "Segmentation fault\n") if (tool, batch) == ("racecheck", 5) else good(tool, batch, tests)
        self.assertIn("racecheck: no summary after 10 tests: exit code 139, Segmentation fault", self.refused(Failure, answer))
        self.assertEqual(self.figures["racecheck"]["tests_run"], TESTS - 2)

    def test_no_summary_at_first_is_a_failure_where_tests_ran(self):
        for outcome in ("[       OK ]", "[  FAILED  ]"):
            self.assertIn("memcheck: no summary after", self.refused(Failure, lambda _tool, _batch, tests, outcome=outcome: (139, lines(outcome, tests))))

    def test_tests_that_fail_without_an_error_of_the_tool_are_a_failure(self):
        why = self.refused(Failure, lambda tool, _batch, tests: (1, lines("[  FAILED  ]", tests) + SUMMARY[tool].format(0)))
        self.assertIn("memcheck: 0 errors, exit code 1", why)

    @staticmethod
    def batch(number):
        return [f"Gpu/OpsSuite.Op{index}/cuda_fp32" for index in range(number, TESTS, sanitizer.BATCHES)]

    def breaks_at_a_product(self, then):
        """Returns an answer by which racecheck breaks in the second of the two tests of batch 5, and answers with
        `then(batch, tests)` where it watches every kernel."""
        def answer(tool, batch, tests):
            if tool == "racecheck" and batch >= sanitizer.BATCHES:
                return then(batch, tests)
            if (tool, batch) == ("racecheck", 5):
                return 9, lines("[       OK ]", tests[:1]) + lines("[  FAILED  ]", tests[1:]) + BREAK + SUMMARY[tool].format(1)
            return good(tool, batch, tests)
        return answer

    def test_a_batch_in_which_the_tool_breaks_runs_again_with_every_kernel_watched(self):
        self.check(self.breaks_at_a_product(lambda _batch, tests: good("racecheck", 0, tests)))
        racecheck = self.figures["racecheck"]
        self.assertEqual((racecheck["tests_run"], racecheck["errors"]), (TESTS, 0))
        self.assertEqual(racecheck["with_every_kernel"], self.batch(5))
        self.assertNotIn("broke_in", racecheck)
        self.assertEqual(self.tool.watches_all["racecheck"], [False] * sanitizer.BATCHES + [True, True])

    def test_hazards_in_a_second_run_are_a_failure(self):
        why = self.refused(Failure, self.breaks_at_a_product(lambda _batch, tests: (9, lines("[       OK ]", tests) + SUMMARY["racecheck"].format(2))))
        self.assertIn(f"racecheck: 2 errors, exit code 9, in {self.batch(5)[1]}", why)

    def test_a_tool_that_breaks_in_the_second_run_too_is_a_failure(self):
        def again(_batch, tests):
            return 9, lines("[  FAILED  ]", tests) + BREAK + SUMMARY["racecheck"].format(1)
        self.assertIn("racecheck: 1 errors, exit code 9", self.refused(Failure, self.breaks_at_a_product(again)))

    def test_a_tool_that_breaks_though_all_tests_pass_runs_them_again(self):
        def answer(tool, batch, tests):
            if (tool, batch) == ("racecheck", 5):
                return 9, lines("[       OK ]", tests) + BREAK + SUMMARY[tool].format(1)
            return good(tool, batch, tests)
        self.check(answer)
        self.assertEqual(self.figures["racecheck"]["with_every_kernel"], self.batch(5))
        self.assertEqual(self.figures["racecheck"]["tests_run"], TESTS)

    def test_second_runs_without_time_are_named(self):
        def late(_batch, _tests):
            raise OutOfTime("compute-sanitizer ran for 9 s")
        self.check(self.breaks_at_a_product(late))
        self.assertEqual(self.figures["racecheck"]["broke_in"], self.batch(5))
        self.assertEqual(self.figures["racecheck"]["tests_run"], TESTS - 2)

    def test_a_tool_that_breaks_in_every_batch_proves_nothing_without_second_runs(self):
        def answer(tool, batch, tests):
            if tool == "memcheck":
                return good(tool, batch, tests)
            if batch >= sanitizer.BATCHES:
                raise OutOfTime("compute-sanitizer ran for 9 s")
            return 9, lines("[  FAILED  ]", tests) + BREAK + SUMMARY[tool].format(1)
        self.assertIn("racecheck: it broke in the tests that ran, and no time was left to run them again", self.refused(NotPossible, answer))

    def test_a_tool_without_time_is_named_and_the_other_does_not_stand_in_for_it(self):
        def answer(tool, batch, tests):
            if tool == "racecheck" or batch == 1:
                raise OutOfTime("compute-sanitizer ran for 9 s")
            return good(tool, batch, tests)
        self.assertEqual(self.refused(NotPossible, answer),
                         "racecheck: not one batch of 2 tests ended within its time; memcheck found nothing in 2 tests")
        self.assertEqual(self.figures["racecheck"]["last"], "compute-sanitizer ran for 9 s")

    def test_skipped_tests_have_not_run(self):
        self.assertEqual(self.refused(NotPossible, skipped("")),
                         "memcheck: no CUDA-capable device is detected; racecheck: no CUDA-capable device is detected")
        self.assertEqual(self.figures["memcheck"]["tests_run"], 0)

    def test_a_refusal_is_the_reason_where_all_tests_are_skipped(self):
        why = self.refused(NotPossible, skipped("========= Error: Device not supported\n"))
        self.assertIn("memcheck: ========= Error: Device not supported", why)
        self.assertEqual(self.tool.asked, {"memcheck": 1, "racecheck": 1})

    def test_a_clean_summary_of_a_program_that_never_ran_proves_nothing(self):
        why = self.refused(NotPossible, lambda tool, _batch, _tests: (0, "========= COMPUTE-SANITIZER\n" + SUMMARY[tool].format(0)))
        self.assertIn("memcheck: no test passed: ========= ERROR SUMMARY: 0 errors", why)


if __name__ == "__main__":
    unittest.main()
