"""Reads the JSON logs of a server and a worker that run a study."""

import json
import os
import re
import unittest

from reflected_api import Api
from services import Services, wait_for

MODEL = {"name": "tiny", "layers": 2, "hidden": 32, "heads": 2, "vocab": 64, "max_seq_len": 32}
WORKLOAD = {"global_batch": 8, "seq_len": 32, "precision": "fp32"}
CLUSTER = {"name": "local", "local": True, "groups": [{"device": {"name": "cpu", "kind": "cpu", "memory_bytes": 1 << 30}, "nodes": 1,
                                                       "gpus_per_node": 2, "ranks_per_core": 1}]}
SPACE = [{"name": name, "values": [value]} for name, value in  # few ops
         (("tp", "1"), ("pp", "1"), ("mbs", "1"), ("recompute", "none"), ("attention", "unfused"), ("zero", "0"))]


def lines_of(text):
    """The objects of the lines that are complete."""
    return [json.loads(line) for line in text.split("\n")[:-1]]


class LogTest(unittest.TestCase):
    def test_lines_name_what_they_are_about(self):
        with Services() as services:
            file = os.path.join(services.directory, "server.json")
            server, address = services.server("--lease-duration", "3s", "--log-format", "json", "--log-file", file)
            worker = services.start("real", ["autocfg-worker", "--coordinator", address, "--name", "real", "--slots", "2", "--devices", "cpu",
                                             "--log-format", "json"])
            worker.said("registered with")
            api = Api(address)
            # Its host's name has whatever a client sends: bytes that would end a line, or a string.
            hostile = 'h"}\n{"level":"critical"\x1b\x00\u2028'
            epoch = api.call("WorkerService", "RegisterWorker", worker="workers/hostile", boot_id="boot",
                             inventory={"device_kind": "cpu", "slots": 2, "hostname": hostile}).session_epoch
            spec = api.message("SearchSpec")(model=MODEL, workload=WORKLOAD, cluster=CLUSTER, device="cpu", max_trials=1, space=SPACE)
            study = api.call("StudyService", "CreateStudy", request_id="create", spec=spec).name
            api.call("StudyService", "StartStudy", name=study, request_id="start")
            wait_for(lambda: api.call("StudyService", "GetStudy", name=study).state not in (1, 2), "the end of the study", limit_s=300)
            api.call("WorkerService", "DeregisterWorker", worker="workers/hostile", session_epoch=epoch)
            self.assertEqual(worker.stop(), 0)
            self.assertEqual(server.stop(), 0)
            with open(file, encoding="utf-8") as log:
                told = lines_of(log.read())
            for line in told + lines_of(worker.text()):
                self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
                self.assertIn(line["level"], ("info", "warn"), line)
                self.assertLessEqual(set(line), {"time", "level", "message", "study", "trial", "worker", "lease", "trace"})
            self.assertEqual({line.get("study") for line in told if " is RUNNING" in line["message"]}, {study})
            self.assertEqual([line["worker"] for line in told if "has registered" in line["message"]], ["workers/real", "workers/hostile"])
            self.assertEqual(len([line for line in told if line["message"].startswith("listening on")]), 1)
            self.assertIn("listening on " + address, server.text())
            self.assertNotIn("is RUNNING", server.text(), "the log is in the file")
            trials = [line for line in lines_of(worker.text()) if re.search(r"trials/\d+, attempt 1: (starts|ended|reported)", line["message"])]
            self.assertGreaterEqual(len(trials), 3)
            for line in trials:
                self.assertEqual(line["study"], study)
                self.assertTrue(line["message"].startswith(line["trial"] + ","), line)
                self.assertEqual(line["worker"], "workers/real")
                self.assertTrue(line["lease"].startswith("lease-"), line)

    def test_a_wrong_option_is_one_line_in_the_form_of_the_log(self):
        with Services() as services:
            for program in ("autocfg-server", "autocfg-worker"):
                target = ["--listen", "localhost:0"] if program == "autocfg-server" else ["--coordinator", "localhost:1", "--wait", "0s"]
                wrong = services.start(program, [program, *target, "--log-keep", "3"])
                self.assertEqual(wrong.process.wait(timeout=60), 2)
                self.assertEqual(wrong.text(), f"{program}: --log-keep: only a file is rotated; give --log-file too\n")
                wrong = services.start(program + "-file", [program, *target, "--log-file", services.directory + "/"])
                self.assertEqual(wrong.process.wait(timeout=60), 2)
                self.assertRegex(wrong.text(), rf"^{program}: --log-file: [^\n]*: is no regular file, [^\n]*\n$")
                wrong = services.start(program + "-below", [program, *target, "--log-file", "/dev/null/log"])
                self.assertEqual(wrong.process.wait(timeout=60), 2)
                self.assertRegex(wrong.text(), rf"^{program}: --log-file: [^\n]*cannot be written[^\n]*\n$")
            ends = services.start("ends", ["autocfg-worker", "--coordinator", "localhost:1", "--wait", "0s", "--devices", "cpu",
                                           "--log-format", "json"])
            self.assertEqual(ends.process.wait(timeout=60), 3)
            last = lines_of(ends.text())[-1]
            self.assertEqual(last["level"], "critical")
            self.assertIn("localhost:1", last["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
