"""Sends kill -9 to the server, a worker, or a trainer or its supervisor at a random moment of a running study. Invariants of every round:

- no acknowledged report is lost;
- no trial is stuck for longer than its lease and 10 s;
- the recommendation equals that of the same study without faults (on the paced device, whose times are exact);
- no process is left behind.

AUTOCFG_FAULT_ROUNDS: number of rounds (default 5). AUTOCFG_FAULT_SEED: seed of the random choices, printed at the start
so that a failure can be reproduced. The last line has the figures, in JSON (bench/results/kills.json).
"""

import collections
import contextlib
import json
import os
import random
import re
import sqlite3
import time
import unittest

import grpc
from reflected_api import Api
from services import Services, wait_for

ROUNDS = int(os.environ.get("AUTOCFG_FAULT_ROUNDS", "5"))
SEED = int(os.environ.get("AUTOCFG_FAULT_SEED", str(random.SystemRandom().randrange(1 << 30))))
LEASE_S = 3
STUCK_S = 10  # after its lease has expired
STUDY_LIMIT_S = 180

RUNNING, DONE = 2, 4  # StudyState; TrialState has the same number for RUNNING
MEASURED = 3
ENDED = {3, 4, 5, 6, 7, 8}

MODEL = {"name": "gpt2-124m", "layers": 12, "hidden": 768, "heads": 12, "vocab": 50257, "max_seq_len": 1024}
WORKLOAD = {"global_batch": 8, "seq_len": 256, "precision": "bf16"}
DEVICE = {"name": "a100-80gb-sxm", "kind": "cuda", "memory_bytes": 80 << 30, "memory_bytes_per_s": 2.0e12,
          "flops_per_s": {"bf16": 3.12e14, "fp16": 3.12e14, "fp32": 1.95e13}}
SPACE = {"mbs": ["1"], "recompute": ["none"], "zero": ["0"], "attention": ["fused"], "tp_overlap": ["1"], "sp": ["0"], "grad_overlap": ["0"],
         "p2p_overlap": ["0"], "scatter_gather": ["0"], "split": ["even"]}


def descendants_of(pid):
    """Returns the processes that `pid` has started, directly or indirectly: of a worker, supervisors and trainers."""
    children = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) == pid:
                        children.append(int(name))
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue  # ended meanwhile
    return children + [one for child in children for one in descendants_of(child)]


class Cluster:
    """A server and two workers of two slots, which are restarted after a kill."""

    def __init__(self, services, lease_s=LEASE_S):
        self.services = services
        self.lease = f"{lease_s}s"
        self.server, self.address = services.server("--lease-duration", self.lease)
        self.workers = {name: self.start_worker(name) for name in ("one", "two")}
        self.connect()

    def connect(self):
        self.api = Api(self.address)

    def start_worker(self, name):
        return self.services.worker(self.address, name, "--devices", "cpu", "--slots", "2")

    def kill_server(self):
        self.server.kill()
        self.api.close()
        self.server = self.services.start("server", ["autocfg-server", "--listen", self.address, "--db",
                                                     os.path.join(self.services.directory, "server.db"), "--lease-duration", self.lease])
        self.connect()

    def kill_worker(self, name):
        self.workers[name].kill()
        self.workers[name] = self.services.start(name, ["autocfg-worker", "--coordinator", self.address, "--name", name, "--devices", "cpu",
                                                        "--slots", "2"])

    def kill_trainer(self, choose):
        """Kills one trainer or supervisor. Returns False if there was none."""
        running = [pid for worker in self.workers.values() for pid in descendants_of(worker.process.pid)]
        if not running:
            return False
        try:
            os.kill(choose(sorted(running)), 9)
        except ProcessLookupError:
            return False
        return True

    def call(self, service, method, **fields):
        """Calls the server; retries while it restarts."""
        end = time.monotonic() + 60
        while True:
            try:
                return self.api.call(service, method, **fields)
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED) or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def pages(self, method, elements, **fields):
        """Returns the elements of a whole list."""
        found, token = [], ""
        while True:
            page = self.call("StudyService", method, page_size=200, page_token=token, **fields)
            found += getattr(page, elements)
            token = page.next_page_token
            if not token:
                return found

    def trials(self, study):
        return self.pages("ListTrials", "trials", parent=study)

    def studies(self):
        return self.pages("ListStudies", "studies")

    def begin(self, ranks, request_id):
        spec = self.api.message("SearchSpec")(
            model=MODEL, workload=WORKLOAD, device="paced", exhaustive=True,
            cluster={"name": f"a100:1x{ranks}", "groups": [{"device": DEVICE, "nodes": 1, "gpus_per_node": ranks, "intra_node_bytes_per_s": 3e11,
                                                            "inter_node_bytes_per_s": 2e10}]})
        for name, values in SPACE.items():
            spec.space.add(name=name, values=values)
        study = self.call("StudyService", "CreateStudy", request_id=request_id, spec=spec).name
        self.call("StudyService", "StartStudy", name=study, request_id=request_id + "-start")
        return study

    def overdue_s(self):
        """Returns the time since the oldest held lease expired."""
        with contextlib.closing(sqlite3.connect(f"file:{self.services.directory}/server.db?mode=ro", uri=True)) as db:
            oldest = db.execute("SELECT min(expires_s) FROM shares WHERE ending = 0").fetchone()[0]
        return 0 if oldest is None else time.time() - oldest

    def reported(self):
        """Returns the acknowledged reports of the workers: (trial, attempt) -> outcome."""
        found = {}
        for name in self.workers:
            with open(os.path.join(self.services.directory, name + ".log"), encoding="utf-8", errors="replace") as log:
                for trial, attempt, outcome in re.findall(r"(studies/\d+/trials/\d+), attempt (\d+): reported (\w+)", log.read()):
                    found[trial, int(attempt)] = outcome
        return found


class FaultsTest(unittest.TestCase):
    longest_overdue_s = 0

    def follow(self, cluster, study):
        """Waits for the study's end. Fails if a trial is stuck: its lease is not renewed but still held."""
        end = time.monotonic() + STUDY_LIMIT_S
        while True:
            state = cluster.call("StudyService", "GetStudy", name=study)
            if state.state == DONE:
                return
            self.assertEqual(state.state, RUNNING, state.message)
            self.assertLess(time.monotonic(), end, f"{study} does not end")
            overdue_s = cluster.overdue_s()
            self.longest_overdue_s = max(self.longest_overdue_s, overdue_s)
            self.assertLess(overdue_s, STUCK_S, f"a trial of {study} is stuck")
            time.sleep(0.05)

    def answer(self, cluster, study):
        answer = cluster.call("StudyService", "GetRecommendation", study=study)
        self.assertEqual(answer.provenance, "measured")
        return (answer.best.plan_text, answer.best.measured.median_step_time_s,
                sorted((trial.plan_text, trial.repeat, trial.state, trial.measured.median_step_time_s) for trial in cluster.trials(study)))

    def test_kill_at_a_random_moment(self):
        print(f"seed {SEED}, {ROUNDS} rounds", flush=True)
        choose = random.Random(SEED)
        kills, started = collections.Counter(), time.monotonic()
        with Services() as services:
            cluster = Cluster(services)
            expected, duration = {}, {}
            for ranks in (2, 4):  # on one worker; shared by both
                began = time.monotonic()
                study = cluster.begin(ranks, f"without-{ranks}")
                self.follow(cluster, study)
                duration[ranks] = time.monotonic() - began
                expected[ranks] = self.answer(cluster, study)
                self.assertTrue(all(trial.state == MEASURED for trial in cluster.trials(study)))
            spans = [len(a.workers) for trial in cluster.trials(study) for a in trial.attempts]
            self.assertEqual(set(spans), {2}, "four ranks need both workers")

            for number in range(ROUNDS):
                ranks = choose.choice((2, 4))
                victim = ("server", "worker", "trainer")[number % 3]
                moment = choose.uniform(0, duration[ranks])
                with self.subTest(round=number, ranks=ranks, victim=victim, moment=moment, seed=SEED):
                    study = cluster.begin(ranks, f"round-{number}")
                    time.sleep(moment)
                    if victim == "server":
                        cluster.kill_server()
                    elif victim == "worker":
                        cluster.kill_worker(choose.choice(("one", "two")))
                    else:
                        wait_for(lambda: cluster.kill_trainer(choose.choice) or
                                 cluster.call("StudyService", "GetStudy", name=study).state != RUNNING, "a trainer to kill")
                    self.follow(cluster, study)
                    self.assertEqual(self.answer(cluster, study), expected[ranks])
                    kills[victim] += 1

            # Workers log after the reply, so every line stands for an acknowledged report.
            ends = {(trial.name, attempt.number): attempt.state for study in cluster.studies()
                    for trial in cluster.trials(study.name) for attempt in trial.attempts}
            acknowledged = {key: outcome for key, outcome in cluster.reported().items() if outcome == "OUTCOME_MEASURED"}
            self.assertGreater(len(acknowledged), ROUNDS)
            for key in acknowledged:
                self.assertIn(ends.get(key), ENDED, f"{key} was acknowledged")
            single = {key for key in acknowledged if ends[key] != MEASURED}
            # A share may be acknowledged although its attempt was lost with another share.
            for trial, _ in single:
                self.assertTrue(any(state == MEASURED for (name, _), state in ends.items() if name == trial), f"{trial} has no measurement")
            attempts = collections.Counter("measured" if state == MEASURED else "ended without" for state in ends.values())
        self.assertEqual(services.left_behind(), [])
        print(json.dumps({"seed": SEED, "rounds": ROUNDS, "passed": sum(kills.values()), "kills": kills, "attempts": attempts,
                          "acknowledged": len(acknowledged), "lease_s": LEASE_S, "longest_overdue_s": self.longest_overdue_s,
                          "seconds": time.monotonic() - started}), flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
