"""Tests outcomes, time limits, and that the file is complete after every section."""
import json
import os
import tempfile
import threading
import unittest

import fake_bundle  # noqa: F401: the path to deploy/
from gpu import programs
from gpu.outcome import Failure, NotPossible, OutOfTime
from gpu.report import Report, Section, run_sections


class Clock:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


class RunSections(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.file = os.path.join(self.directory.name, "report.json")
        self.clock = Clock()

    def read(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    def run_all(self, sections, total=100):
        return run_sections(Report(self.file, {"device": None}), sections, None, total, lambda _: None, self.clock)

    @staticmethod
    def raising(error):
        def run(_context, figures, _deadline):
            figures["before"] = 1
            raise error
        return run

    def test_every_way_to_end_has_its_outcome_and_keeps_its_figures(self):
        good = self.run_all([Section("right", 10, lambda _c, figures, _d: figures.update(x=2)), Section("wrong", 10, self.raising(Failure("off\nby 3"))),
                             Section("no_way", 10, self.raising(NotPossible("no GPU"))), Section("slow", 10, self.raising(OutOfTime("step 3"))),
                             Section("broken", 10, self.raising(KeyError("x")))], total=20)
        self.assertFalse(good)
        sections = self.read()["sections"]
        self.assertEqual({name: entry["outcome"] for name, entry in sections.items()},
                         {"right": "passed", "wrong": "failed", "no_way": "not possible", "slow": "failed", "broken": "failed"})
        self.assertEqual(sections["wrong"]["why"], "off by 3")
        self.assertEqual(sections["slow"]["why"], "not done within its 10 s: step 3")
        self.assertIn("KeyError", sections["broken"]["why"])
        self.assertEqual(sections["slow"]["figures"], {"before": 1})

    def test_only_optional_sections_may_be_impossible(self):
        def passes(_context, _figures, _deadline):
            pass
        impossible = self.raising(NotPossible("not here"))
        self.assertTrue(self.run_all([Section("a", 10, passes), Section("b", 10, impossible, optional=True)]))
        self.assertTrue(self.read()["passed"])
        self.assertFalse(self.run_all([Section("a", 10, passes), Section("b", 10, impossible)]))
        self.assertFalse(self.run_all([Section("a", 10, self.raising(Failure("bad")), optional=True)]))

    def test_the_file_is_complete_while_a_section_runs(self):
        seen = []

        def look(_context, _figures, _deadline):
            seen.append({name: entry["outcome"] for name, entry in self.read()["sections"].items()})
        self.run_all([Section("first", 10, look), Section("second", 10, look), Section("third", 10, look)])
        self.assertEqual(seen[0], {"first": "not run", "second": "not run", "third": "not run"})
        self.assertEqual(seen[2], {"first": "passed", "second": "passed", "third": "not run"})

    def test_limits_are_the_sections_own_and_the_remaining_time(self):
        deadlines = []

        def takes(seconds):
            def run(_context, _figures, deadline):
                deadlines.append(deadline)
                self.clock.time += seconds
            return run
        good = self.run_all([Section("a", 30, takes(25)), Section("b", 30, takes(5)), Section("c", 30, takes(1))], total=30.5)
        self.assertEqual(deadlines, [30, 30.5])
        self.assertFalse(good)
        self.assertEqual(self.read()["sections"]["c"]["outcome"], "not run")
        self.assertIn("were over", self.read()["sections"]["c"]["why"])

    def test_lanes_run_in_parallel_and_other_sections_alone(self):
        ended, meet = [], threading.Barrier(2)

        def waits(name):
            def run(_context, _figures, _deadline):
                meet.wait(60)
                ended.append(name)
            return run

        def alone(_context, _figures, _deadline):
            ended.append("alone")
        self.assertTrue(self.run_all([Section("a1", 10, waits("a1"), lane="a"), Section("a2", 10, waits("a2"), lane="a"), Section("b1", 10, waits("b1"), lane="b"),
                                      Section("b2", 10, waits("b2"), lane="b"), Section("last", 10, alone)]))
        self.assertLess(ended.index("a1"), ended.index("a2"))
        self.assertLess(ended.index("b1"), ended.index("b2"))
        self.assertEqual(ended[-1], "alone")

    def test_failed_programs_are_reported_in_their_section(self):
        def fails(word):
            def run(_context, _figures, deadline):
                programs.in_parallel(2, ["/bin/sh"], lambda shell: programs.run([shell, "-c", f"echo {word}; exit 3"], deadline))
            return run
        sections = [Section("a", 60, fails("one"), lane="a"), Section("b", 60, fails("two"), lane="b"), Section("c", 60, lambda *_: None)]
        run_sections(Report(self.file, {}), sections, None, 100, lambda _: None)
        failed = {name: [entry["last_lines"] for entry in section["failed_commands"]] for name, section in self.read()["sections"].items()}
        self.assertEqual(failed, {"a": [["one"]], "b": [["two"]], "c": []})

    def test_spare_time_is_shared_by_later_sections(self):
        deadlines = []

        def look(_context, _figures, deadline):
            deadlines.append(deadline)
        report = Report(self.file, {})
        report.keep({"sections": {"b": {"outcome": "passed"}}})
        run_sections(report, [Section("a", 10, look), Section("b", 1000, look), Section("c", 30, look)], None, 80, lambda _: None, self.clock)
        self.assertEqual(deadlines, [20, 80])

    def test_infinities_become_text(self):
        self.run_all([Section("a", 10, lambda _c, figures, _d: figures.update(x=float("inf"), y=[float("nan")]))])
        self.assertEqual(self.read()["sections"]["a"]["figures"], {"x": "inf", "y": ["nan"]})

    def test_what_passed_before_is_kept_and_what_failed_is_run_again(self):
        ran = []
        report = Report(self.file, {})
        report.keep({"sections": {"device": {"outcome": "passed"}, "a": {"outcome": "passed", "why": "", "seconds": 1, "figures": {"x": 1}},
                                  "b": {"outcome": "failed"}, "c": {"outcome": "not run"}}})
        sections = [Section(name, 10, lambda _c, _f, _d, name=name: ran.append(name)) for name in ("device", "a", "b", "c")]
        self.assertTrue(run_sections(report, sections, None, 100, lambda _: None, self.clock))
        self.assertEqual(ran, ["device", "b", "c"])
        self.assertEqual(self.read()["sections"]["a"]["figures"], {"x": 1})

    def test_what_failed_before_stays_where_there_is_no_time_to_run_it_again(self):
        report = Report(self.file, {})
        self.assertEqual(report.keep({"sections": {"b": {"outcome": "failed", "why": "slow", "figures": {"x": 1}}}, "command": "gpu_check"}), [])
        self.assertFalse(run_sections(report, [Section("b", 10, self.raising(KeyError()))], None, 0.5, lambda _: None, self.clock))
        self.assertEqual(self.read()["sections"]["b"]["why"], "slow")
        self.assertEqual(self.read()["earlier_runs"][0]["command"], "gpu_check")

    def test_what_failed_before_counts_where_it_is_not_asked_for_again(self):
        for outcome, optional, good in (("failed", (), False), ("not possible", (), False), ("not possible", ("b",), True), ("passed", (), True)):
            report = Report(self.file, {})
            report.keep({"sections": {"b": {"outcome": outcome, "why": "", "seconds": 1, "figures": {}}}})
            sections = [Section("a", 10, lambda *_: None)]
            self.assertEqual(run_sections(report, sections, None, 100, lambda _: None, self.clock, optional=optional), good, (outcome, optional))
            self.assertEqual(self.read()["passed"], good)


if __name__ == "__main__":
    unittest.main()
