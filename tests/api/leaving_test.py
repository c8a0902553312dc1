"""Workers that say when they must go: they get no job that would not finish, and end in time."""

import json
import os
import unittest

from reflected_api import Api
from services import Services, wait_for

RUNNING, DONE = 2, 4  # StudyState

MODEL = {"name": "tiny", "layers": 2, "hidden": 32, "heads": 2, "vocab": 64, "max_seq_len": 32}
WORKLOAD = {"global_batch": 8, "seq_len": 32, "precision": "fp32"}
CLUSTER = {"name": "local", "local": True, "groups": [{"device": {"name": "cpu", "kind": "cpu", "memory_bytes": 1 << 30}, "nodes": 1,
                                                       "gpus_per_node": 2, "ranks_per_core": 1}]}
SPACE = [{"name": name, "values": [value]} for name, value in  # few ops
         (("tp", "1"), ("pp", "1"), ("mbs", "1"), ("recompute", "none"), ("attention", "unfused"), ("zero", "0"))]


class LeavingTest(unittest.TestCase):
    def test_a_worker_that_leaves_soon_gets_no_job(self):
        with Services() as services:
            server, address = services.server()
            api = Api(address)
            leaving = services.worker(address, "leaving", "--slots", "2", "--devices", "cpu", "--until", "45s", "--until-grace", "5s")

            def listed(*arguments):
                verb = services.start("workers", ["autocfg", "workers", "--coordinator", address, *arguments])
                self.assertEqual(verb.process.wait(timeout=60), 0, verb.text())
                text = verb.text()
                os.remove(verb.log)
                return text

            (shown,) = json.loads(wait_for(lambda: (lambda text: "leaves_in_s\": null" not in text and text)(listed("--json")), "its time"))
            self.assertLessEqual(shown["leaves_in_s"], 40)
            self.assertRegex(" ".join(listed().split()), r"takes jobs for \d+ s")
            spec = api.message("SearchSpec")(model=MODEL, workload=WORKLOAD, cluster=CLUSTER, device="cpu", max_trials=2, space=SPACE)
            study = api.call("StudyService", "CreateStudy", request_id="create", spec=spec).name
            api.call("StudyService", "StartStudy", name=study, request_id="start")
            wait_for(lambda: "leaves before its next job must have ended" in api.call("StudyService", "GetStudy", name=study).waiting,
                     "why it waits")
            self.assertEqual(leaving.process.wait(timeout=120), 0, leaving.text())
            self.assertNotIn("starts with", leaving.text())
            self.assertIn("its time ends; it takes no more work", leaving.text())
            (gone,) = json.loads(listed("--gone", "--json"))
            self.assertEqual(gone["state"], "gone")
            self.assertIsNone(gone["leaves_in_s"])
            self.assertEqual(api.call("StudyService", "GetStudy", name=study).state, RUNNING)
            # One with an hour takes the calibration and the trials.
            staying = services.worker(address, "staying", "--slots", "2", "--devices", "cpu", "--until", "1h")
            wait_for(lambda: api.call("StudyService", "GetStudy", name=study).state == DONE, "the end of the study", limit_s=300)
            self.assertEqual(staying.stop(), 0)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
