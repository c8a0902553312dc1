"""Random faults of the network between a coordinator, three workers and a client, on hosts of their own (network.py), while studies run:
delay, loss, duplicates, cut and half-open lines. Each fault ends after some seconds. Invariants of every round:

- the study ends, and so does the client that follows it;
- no trial is stuck for longer than its lease and 10 s;
- the recommendation equals that of the same study without faults (on the paced device, whose times are exact);
- no process is left behind.

Every fourth round is a gang of the CPU engine, whose ranks exchange gradients over the same network: of it, the end counts.

AUTOCFG_FAULT_ROUNDS: number of rounds (default 2; five have one of each kind). AUTOCFG_FAULT_SEED: seed of the random choices, printed at the start so that a
failure can be reproduced. The last line has the figures, in JSON (bench/results/network_faults.json). Exit status 77: this machine
cannot emulate hosts; the reason is printed.
"""

import collections
import json
import os
import random
import subprocess
import sys
import time
import unittest

from hosts import DATA_PARALLEL, LEASE_S, STUDY_LIMIT_S, Hosts
from network import Network, why_not
from services import Services, wait_for

ROUNDS = int(os.environ.get("AUTOCFG_FAULT_ROUNDS", "2"))
SEED = int(os.environ.get("AUTOCFG_FAULT_SEED", str(random.SystemRandom().randrange(1 << 30))))
MEASURED = 3  # TrialState
NODES = ("node0", "node1", "node2")
# What a fault does to a line; a cut one is cut both ways.
FAULTS = ("delay", "loss", "duplicate", "half-open", "cut")
PAIRS = (("head", "client"), *(("head", node) for node in NODES), ("node0", "node1"), ("node1", "node2"), (None, None))


class NetworkFaults(unittest.TestCase):
    def apply(self, network, choose, fault, pair):
        one, other = pair if choose.random() < 0.5 else pair[::-1]
        values = {"delay": {"delay_s": choose.uniform(0.02, 0.5)}, "loss": {"loss": choose.uniform(0.02, 0.3)},
                  "duplicate": {"duplicate": choose.uniform(0.1, 0.9)}}.get(fault, {"cut": True})
        network.set(one, other, **values)
        if fault != "half-open":
            network.set(other, one, **values)

    def answer(self, hosts, study):
        answer = hosts.call("StudyService", "GetRecommendation", study=study)
        self.assertEqual(answer.provenance, "measured")
        return (answer.best.plan_text, answer.best.measured.median_step_time_s,
                sorted((trial.plan_text, trial.repeat, trial.state, trial.measured.median_step_time_s) for trial in hosts.trials(study)))

    def begin_real(self, hosts):
        """Returns a client whose search measures with the CPU engine. Its calibration, too, meets the fault."""
        return subprocess.Popen(hosts.on_client("search", *DATA_PARALLEL, "--cluster", "local:1x2"), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def begin_paced(self, hosts, ranks, name):
        study = hosts.begin(ranks, name)
        return study, subprocess.Popen(hosts.on_client("watch", "--study", study.removeprefix("studies/")), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)

    def ended(self, hosts, study):
        return sum(trial.state == MEASURED for trial in hosts.trials(study))

    def expect_end(self, client):
        out, _ = client.communicate(timeout=STUDY_LIMIT_S)
        self.assertEqual(client.returncode, 0, out)

    def test_random_faults(self):
        print(f"seed {SEED}, {ROUNDS} rounds", flush=True)
        choose, faults, started = random.Random(SEED), collections.Counter(), time.monotonic()
        with Network(SEED) as network, Services() as services:
            hosts = Hosts(services, network, NODES, slots=2)
            expected, trials = {}, {}
            for ranks in (2, 4):  # on one worker; shared by two
                study, client = self.begin_paced(hosts, ranks, f"without-{ranks}")
                hosts.follow(self, study)
                self.expect_end(client)
                trials[ranks] = len(hosts.trials(study))
                expected[ranks] = self.answer(hosts, study)
                self.assertEqual({trial.state for trial in hosts.trials(study)}, {MEASURED})

            for number in range(ROUNDS):
                real, ranks = number % 4 == 3, choose.choice((2, 4))
                fault, pair = FAULTS[number % len(FAULTS)], choose.choice(PAIRS)
                # How many trials have ended when the fault begins: the machine may be faster or slower than before.
                moment, lasts_s = choose.randrange(trials[ranks]), choose.uniform(0.5, 2.5 * LEASE_S)
                with self.subTest(round=number, ranks=ranks, real=real, fault=fault, pair=pair, moment=moment, lasts_s=lasts_s, seed=SEED):
                    study, client = (None, self.begin_real(hosts)) if real else self.begin_paced(hosts, ranks, f"round-{number}")
                    with client:
                        # One that has not reached its coordinator yet says so and ends with 3.
                        wait_for(lambda: hosts.client.run("ss", "-Htn", "state", "established", "dst", hosts.head.address), "the client's connection")
                        if study is not None:
                            wait_for(lambda study=study, moment=moment: self.ended(hosts, study) >= moment, f"trial {moment} of {study}")
                        time.sleep(choose.uniform(0, 5 if real else 0.2))
                        self.apply(network, choose, fault, pair)
                        time.sleep(lasts_s)
                        network.heal()
                        if study is not None:
                            hosts.follow(self, study)
                        self.expect_end(client)
                    if study is not None:
                        self.assertEqual(self.answer(hosts, study), expected[ranks])
                    print(f"round {number}: {'a gang of the CPU engine' if real else f'{ranks} ranks'}, {fault} of {pair}, "
                          f"{lasts_s:.1f} s from trial {moment}: ended", flush=True)
                    faults[fault] += 1
                    for worker in hosts.workers.values():
                        self.assertIsNone(worker.process.poll(), "a worker has ended")
            attempts = collections.Counter(attempt.state for study in hosts.studies() for attempt in hosts.attempts(study.name))
            hosts.api.close()
        self.assertEqual(services.left_behind(), [])
        print(json.dumps({"seed": SEED, "rounds": ROUNDS, "passed": sum(faults.values()), "faults": faults,
                          "attempts": {"measured": attempts[MEASURED], "ended without": sum(attempts.values()) - attempts[MEASURED]},
                          "lease_s": LEASE_S, "longest_overdue_s": hosts.longest_overdue_s, "seconds": time.monotonic() - started}),
              flush=True)


if __name__ == "__main__":
    if missing := why_not():
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main(verbosity=2)
