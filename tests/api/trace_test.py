"""Follows the trace of a command: through the server's and the worker's logs, into the environment and the logs of the ranks."""

import json
import os
import re
import unittest

from reflected_api import Api
from services import BIN, Services

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
SEARCH = ["--cluster", "local", "--global-batch", "8", "--precision", "fp32", "--max-trials", "1",
          *(word for axis in ("tp=1", "pp=1", "mbs=1", "recompute=none", "attention=unfused", "zero=0") for word in ("--space", axis))]  # few ops
LIMIT_S = 300  # of a search on a loaded machine

MODEL = {"name": "tiny", "layers": 2, "hidden": 32, "heads": 2, "vocab": 64, "max_seq_len": 32}
WORKLOAD = {"global_batch": 8, "seq_len": 32, "precision": "fp32"}
CLUSTER = {"name": "local", "local": True, "groups": [{"device": {"name": "cpu", "kind": "cpu", "memory_bytes": 1 << 30}, "nodes": 1,
                                                       "gpus_per_node": 2, "ranks_per_core": 1}]}

# Writes down what a rank gets, and what it logs.
TRAINER = f"""#!/bin/sh
echo "TRACEPARENT=$TRACEPARENT" >>"$AUTOCFG_TEST_RANKS"
exec {BIN}/autocfg-trainer "$@" 2>>"$AUTOCFG_TEST_RANKS.log"
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def model_file(services):
    path = os.path.join(services.directory, "model.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(MODEL, file)
    return path


def lines_of(text):
    return [json.loads(line) for line in text.split("\n")[:-1]]


class TraceTest(unittest.TestCase):
    def test_a_search_is_one_trace_from_the_command_to_its_ranks(self):
        with Services() as services:
            trainer, ranks = os.path.join(services.directory, "trainer"), os.path.join(services.directory, "ranks")
            with open(trainer, "w", encoding="utf-8") as file:
                file.write(TRAINER)
            os.chmod(trainer, 0o755)
            log = os.path.join(services.directory, "server.json")
            server, address = services.server("--log-format", "json", "--log-file", log)
            worker = services.start("real", ["autocfg-worker", "--coordinator", address, "--name", "real", "--slots", "2", "--devices", "cpu",
                                             "--log-format", "json"],
                                    {"AUTOCFG_TRAINER": trainer, "AUTOCFG_TEST_RANKS": ranks, "AUTOCFG_LOG": "debug",
                                     "TRACEPARENT": f"00-{'a' * 32}-{'b' * 16}-01"})
            worker.said("registered with")
            search = services.start("search", ["autocfg", "search", "--coordinator", address, "--model", model_file(services), "--seq-len", "32",
                                               *SEARCH], {"TRACEPARENT": f"00-{TRACE}-{SPAN}-00"})
            self.assertEqual(search.process.wait(timeout=LIMIT_S), 0, search.text())
            listed = services.start("studies", ["autocfg", "studies", "--coordinator", address, "--json"])
            self.assertEqual(listed.process.wait(timeout=60), 0)
            (study,) = json.loads(listed.text())
            self.assertEqual(study["trace_id"], TRACE)
            self.assertEqual(worker.stop(), 0)
            self.assertEqual(server.stop(), 0)

            told = [line for line in lines_of(read(log)) if line.get("study") == study["study"]]
            self.assertGreaterEqual(len(told), 2, "it runs, and is done")
            self.assertEqual({line.get("trace") for line in told}, {TRACE})
            jobs = [line for line in lines_of(worker.text()) if ", attempt " in line["message"]]
            self.assertEqual({line.get("trace") for line in jobs}, {TRACE})
            self.assertIn(f", trace {TRACE}", jobs[0]["message"])

            variables = set(read(ranks).split())
            self.assertGreaterEqual(len(variables), 2, "a span for each job: the calibration and a trial")
            for variable in variables:
                self.assertRegex(variable, rf"^TRACEPARENT=00-{TRACE}-[0-9a-f]{{16}}-00$")
                self.assertNotIn(SPAN, variable)
            logged = [line for line in read(ranks + ".log").splitlines() if "[trainer]" in line]
            self.assertGreater(len(logged), 0)
            for line in logged:
                self.assertIn(f" [trace {TRACE}] ", line)

    def test_a_command_without_a_trace_begins_one(self):
        with Services() as services:
            server, address = services.server()
            worker = services.worker(address, "real", "--slots", "2", "--devices", "cpu")
            for name, given in (("none", ""), ("wrong", "00-not-a-trace-01")):
                search = services.start(name, ["autocfg", "search", "--coordinator", address, "--model", model_file(services), "--seq-len",
                                               "16" if given else "32", *SEARCH], {"TRACEPARENT": given})
                self.assertEqual(search.process.wait(timeout=LIMIT_S), 0, search.text())
            api = Api(address)
            traces = [study.trace_parent for study in api.call("StudyService", "ListStudies").studies]
            self.assertEqual(len(set(traces)), 2, traces)
            for trace in traces:
                self.assertRegex(trace, r"^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
            worker.stop()
            server.stop()

    def test_a_study_keeps_the_trace_of_the_call_that_started_it(self):
        with Services() as services:
            server, address = services.server()
            api = Api(address)
            spec = api.message("SearchSpec")(model=MODEL, workload=WORKLOAD, cluster=CLUSTER, device="cpu")

            def call(method, span=None, **fields):
                metadata = [("traceparent", f"00-{TRACE}-{span * 16}-01" if len(span) == 1 else span)] if span else None
                return re.sub(r"^00-" + TRACE + "-", "", api.call("StudyService", method, metadata=metadata, **fields).trace_parent)

            name = "studies/1"
            self.assertEqual(call("CreateStudy", "1", spec=spec, request_id="a"), "1" * 16 + "-01")
            self.assertEqual(call("CreateStudy", "2", spec=spec, request_id="a"), "1" * 16 + "-01", "the same request")
            self.assertEqual(call("StartStudy", "3", name=name), "3" * 16 + "-01")
            self.assertEqual(call("StartStudy", "4", name=name), "3" * 16 + "-01", "it runs already")
            self.assertEqual(call("PauseStudy", "5", name=name), "3" * 16 + "-01")
            self.assertEqual(call("ResumeStudy", name=name), "3" * 16 + "-01", "a call without a trace")
            self.assertEqual(call("PauseStudy", name=name), "3" * 16 + "-01")
            self.assertEqual(call("ResumeStudy", "00-forged\"}-01", name=name), "3" * 16 + "-01", "no trace")
            self.assertEqual(call("PauseStudy", name=name), "3" * 16 + "-01")
            self.assertEqual(call("ResumeStudy", "6", name=name), "6" * 16 + "-01")
            self.assertEqual(call("CreateStudy", spec=spec, request_id="b"), "")
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
