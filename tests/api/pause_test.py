"""Stops the server (SIGSTOP) for more than two leases while jobs run, then lets it go on. No work may be lost: every trial is
measured in its first attempt.

AUTOCFG_FAULT_ROUNDS: number of pauses (default 2). AUTOCFG_FAULT_SEED: seed of the moments, printed at the start so that a
failure can be reproduced.
"""

import os
import random
import signal
import time
import unittest

from faults_test import DONE, MEASURED, RUNNING, SEED, STUDY_LIMIT_S, Cluster
from services import Services

ROUNDS = int(os.environ.get("AUTOCFG_FAULT_ROUNDS", "2"))
LEASE_S = 4
PAUSE_S = 2 * LEASE_S + 0.5


class PauseTest(unittest.TestCase):
    def follow(self, cluster, study):
        end = time.monotonic() + STUDY_LIMIT_S
        while True:
            state = cluster.call("StudyService", "GetStudy", name=study)
            if state.state == DONE:
                return
            self.assertEqual(state.state, RUNNING, state.message)
            self.assertLess(time.monotonic(), end, f"{study} does not end")
            time.sleep(0.05)

    def running(self, cluster, study):
        return any(trial.state == RUNNING for trial in cluster.trials(study))

    def test_pause_of_the_server_loses_no_work(self):
        print(f"seed {SEED}, {ROUNDS} pauses of {PAUSE_S} s", flush=True)
        choose = random.Random(SEED)
        with Services() as services:
            cluster = Cluster(services, LEASE_S)
            for number in range(ROUNDS):
                ranks = (2, 4)[number % 2]  # on one worker; shared by both
                with self.subTest(round=number, ranks=ranks, seed=SEED):
                    study = cluster.begin(ranks, f"pause-{number}")
                    end = time.monotonic() + STUDY_LIMIT_S
                    while not self.running(cluster, study):
                        self.assertLess(time.monotonic(), end, "no trial starts")
                        time.sleep(0.01)
                    time.sleep(choose.uniform(0, 0.2))  # the study takes half a second or more
                    cluster.server.process.send_signal(signal.SIGSTOP)
                    time.sleep(PAUSE_S)
                    cluster.server.process.send_signal(signal.SIGCONT)
                    self.follow(cluster, study)
                    attempts = [(trial.name, attempt.number, attempt.state, attempt.message)
                                for trial in cluster.trials(study) for attempt in trial.attempts]
                    self.assertGreater(len(attempts), 1)
                    lost = [attempt for attempt in attempts if attempt[2] != MEASURED]
                    self.assertEqual(lost, [], cluster.server.text())
            self.assertIn("was stopped, suspended or blocked", cluster.server.text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
