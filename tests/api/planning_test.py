"""Plans the largest spaces that the server accepts. Planning ends soon after CancelStudy, SIGTERM or the deadline of its caller, and the
server stays under 500 MB (measured: 198 to 246 MB).

The contract is 1 s from CancelStudy to the end of planning, and 10 s from SIGTERM to the end of the process. The limits here are wider, for
a machine with much else to do.

AUTOCFG_PLANNING_ROUNDS: how many times two of the studies with the most memory are planned at once (default 1).
"""

import os
import time
import unittest

import grpc
from reflected_api import Api
from services import Services, wait_for

ROUNDS = int(os.environ.get("AUTOCFG_PLANNING_ROUNDS", "1"))
RUNNING, DONE, FAILED, CANCELLED = 2, 4, 5, 6  # StudyState
CANCEL_LIMIT_S = 5
TERM_LIMIT_S = 15
PLANNING_LIMIT_S = 600
MOST_MB = 500
CALLS = 30

DEVICE = {"name": "a100-80gb-sxm", "kind": "cuda", "memory_bytes": 80 << 30, "memory_bytes_per_s": 2.0e12,
          "flops_per_s": {"bf16": 3.12e14, "fp16": 3.12e14, "fp32": 1.95e13}}


def spec(api, name, layers, ranks, batch, hidden, seq_len, **device):
    cluster = {"name": name, "groups": [{"device": dict(DEVICE, **device), "nodes": ranks // 8, "gpus_per_node": 8,
                                         "intra_node_bytes_per_s": 3e11, "inter_node_bytes_per_s": 2e10}]}
    return api.message("SearchSpec")(
        model={"name": name, "layers": layers, "hidden": hidden, "heads": hidden, "vocab": 512, "max_seq_len": 128},
        workload={"global_batch": batch, "seq_len": seq_len, "precision": "bf16"}, cluster=cluster, predict_only=True)


def long_spec(api, name, layers=1000):
    """Takes several seconds to plan on a fast machine."""
    return spec(api, name, layers=layers, ranks=1024, batch=1 << 20, hidden=128, seq_len=128)


def wide_spec(api, name):
    """Takes the most memory: plans of tens of thousands of stages."""
    return spec(api, name, layers=55440, ranks=720720, batch=720720, hidden=64, seq_len=1, memory_bytes=1 << 45)


class Watched:
    """The resources of a process."""

    def __init__(self, process):
        self.directory = f"/proc/{process.process.pid}"

    def cpu_s(self):
        with open(self.directory + "/stat", encoding="utf-8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_idle(self):
        """Returns whether the process used less than a tenth of a core for half a second."""
        before = self.cpu_s()
        time.sleep(0.5)
        return self.cpu_s() - before <= 0.05

    def memory_mb(self, key):
        with open(self.directory + "/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(key + ":")) / 1024

    def is_sanitized(self):
        with open(self.directory + "/maps", encoding="utf-8") as maps:
            libraries = maps.read()
        return "libasan" in libraries or "libtsan" in libraries


class PlanningTest(unittest.TestCase):
    def setUp(self):
        self.services = Services()
        self.services.__enter__()
        self.addCleanup(self.services.close)
        self.server, address = self.services.server()
        self.watched = Watched(self.server)
        self.api = Api(address)
        self.addCleanup(self.api.close)

    def begin(self, study_spec):
        study = self.api.call("StudyService", "CreateStudy", request_id=f"create-{study_spec.model.name}", spec=study_spec).name
        self.api.call("StudyService", "StartStudy", name=study, request_id=f"start-{study_spec.model.name}")
        return study

    def study(self, name):
        return self.api.call("StudyService", "GetStudy", name=name)

    def await_planning(self, name):
        """Waits until the server computes. What it has enumerated is shown every few seconds, and planning may end before."""
        self.assertEqual(self.study(name).state, RUNNING)
        wait_for(lambda: not self.watched.is_idle(), f"{name} is planned")

    def check_memory(self):
        if self.watched.is_sanitized():
            return  # takes several times as much
        self.assertLess(self.watched.memory_mb("VmHWM"), MOST_MB)

    def test_cancelled_planning_ends(self):
        study = self.begin(long_spec(self.api, "cancelled"))
        self.await_planning(study)
        self.assertFalse(self.watched.is_idle())
        self.assertEqual(self.api.call("StudyService", "CancelStudy", name=study, request_id="cancel").state, CANCELLED)
        wait_for(self.watched.is_idle, "planning ends", CANCEL_LIMIT_S)
        self.assertEqual(self.study(study).state, CANCELLED)

        # Nobody runs the study, so each of these calls would plan it anew.
        began = time.monotonic()
        calls = [self.api.begin("StudyService", "GetRecommendation", timeout=1 + 0.02 * number, study=study) for number in range(CALLS)]
        for call in calls:
            self.assertEqual(call.exception().code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertGreaterEqual(time.monotonic() - began, 1)
        wait_for(self.watched.is_idle, "no thread goes on after its caller's deadline", CANCEL_LIMIT_S)
        self.check_memory()

    def test_planning_beyond_its_limit_fails_the_study_alone(self):
        limited = self.services.start("limited", ["autocfg-server", "--listen", "localhost:0", "--db", os.path.join(self.services.directory, "limited.db"),
                                                  "--max-planning", "1s"])
        self.api = Api(limited.said(r"listening on (\S+)").group(1))
        self.addCleanup(self.api.close)
        large = self.begin(long_spec(self.api, "large", layers=2000))
        small = self.begin(spec(self.api, "small", layers=8, ranks=8, batch=8, hidden=64, seq_len=64))
        wait_for(lambda: self.study(small).state == DONE, "the small study", PLANNING_LIMIT_S)
        wait_for(lambda: self.study(large).state != RUNNING, "the large study", PLANNING_LIMIT_S)
        self.assertEqual(self.study(large).state, FAILED)
        self.assertRegex(self.study(large).message, r"^planning took 1 s of a core, .*--max-planning.*after \d+ plans, .*with --space")

    def test_sigterm_ends_the_process_while_it_plans(self):
        studies = [self.begin(long_spec(self.api, f"ended-{layers}", layers)) for layers in (1000, 996, 984)]
        for study in studies[:2]:
            self.await_planning(study)
        cancelled = studies.pop()
        self.api.call("StudyService", "CancelStudy", name=cancelled, request_id="cancel")
        calls = [self.api.begin("StudyService", "GetRecommendation", timeout=60, study=cancelled) for _ in range(CALLS)]
        time.sleep(1)
        self.check_memory()
        began = time.monotonic()
        self.assertEqual(self.server.stop(), 0, self.server.text())
        self.assertLess(time.monotonic() - began, TERM_LIMIT_S)
        for call in calls:
            self.assertIsNotNone(call.exception(), "nothing was computed so soon")

    def test_memory_of_the_largest_spaces(self):
        print(f"{ROUNDS} rounds", flush=True)
        for number in range(ROUNDS):
            studies = [self.begin(wide_spec(self.api, f"wide-{number}-{each}")) for each in range(2)]
            for study in studies:
                wait_for(lambda: self.study(study).state != RUNNING, f"{study} ends", PLANNING_LIMIT_S)
                self.assertEqual(self.study(study).state, DONE, self.study(study).message)
                self.assertTrue(self.api.call("StudyService", "GetRecommendation", study=study).HasField("best"))
            self.check_memory()
            print(f"round {number}: at most {self.watched.memory_mb('VmHWM'):.0f} MB resident, "
                  f"{self.watched.memory_mb('VmRSS'):.0f} MB at the end", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
