"""Tests of a coordinator, workers and clients on several hosts, each with its own address and host name (network.py). Exit status 77: this
machine cannot emulate them; the reason is printed."""

import json
import os
import re
import subprocess
import sys
import time
import unittest

from hosts import BIN, DATA_PARALLEL, RUNNING, STUDY_LIMIT_S, Hosts, descendants_of
from network import Interface, Network, why_not
from services import Services, wait_for

MEASURED, LOST = 3, 8  # TrialState
KEEPALIVE_LIMIT_S = 150  # 30 s on an idle machine


class SeveralHosts(unittest.TestCase):
    def setUp(self):
        self.network, self.services = Network(), Services()
        self.network.__enter__()
        self.addCleanup(self.network.close)
        self.services.__enter__()
        self.addCleanup(self.services.close)

    def hosts(self, count, **options):
        hosts = Hosts(self.services, self.network, [f"node{number}" for number in range(count)], **options)
        self.addCleanup(hosts.api.close)
        return hosts

    def searched(self, hosts, *arguments):
        done = hosts.search(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["best"]["provenance"], "measured")
        return answer

    def await_trial(self, hosts, study):
        """Waits until a trial runs. Returns its name and its workers' hosts."""
        def running():
            for trial in hosts.trials(study):
                if trial.state == RUNNING and trial.attempts:
                    workers = [name.removeprefix("workers/") for name in trial.attempts[-1].workers]
                    if workers:
                        return trial.name, workers
            return None
        return wait_for(running, f"a running trial of {study}")

    def expect_all_measured(self, hosts, study):
        self.assertEqual({trial.state for trial in hosts.trials(study)}, {MEASURED})

    def test_a_gang_over_tcp(self):
        hosts = self.hosts(4)
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                before = hosts.carried()
                self.searched(hosts, *DATA_PARALLEL, "--cluster", f"local:1x{ranks}")
                study = max(hosts.studies(), key=lambda one: int(one.name.split("/")[1])).name
                self.assertEqual({len(attempt.workers) for attempt in hosts.attempts(study)}, {ranks})
                self.assertGreater(hosts.carried() - before, 1_000_000, "the ranks must have used the network")
        told = json.loads(subprocess.run(hosts.on_client("workers", "--json"), capture_output=True, text=True, check=True).stdout)
        self.assertEqual({worker["hostname"] for worker in told}, set(hosts.nodes), "a worker's name is its host's")

    def test_the_interface_that_reaches_the_coordinator_is_chosen(self):
        # As a bridge of containers: up, with an address, and no way to other hosts. The first or the last by name.
        hosts = self.hosts(2, interfaces=(Interface("aaa0", 0), Interface("eth0", 1), Interface("zzz0", 0)))
        for worker in hosts.workers.values():
            worker.said("over network interface eth0, which reaches the coordinator")
        self.searched(hosts, *DATA_PARALLEL)
        self.assertGreater(hosts.carried(), 1_000_000)

    def test_the_interface_that_is_named_is_used(self):
        hosts = self.hosts(2, interfaces=(Interface("eth0", 1), Interface("fast0", 2)), options=("--interface", "fast0"))
        for worker in hosts.workers.values():
            worker.said("over network interface fast0")
        self.searched(hosts, *DATA_PARALLEL)
        self.assertGreater(hosts.carried(network=2), 1_000_000)
        self.assertLess(hosts.carried(network=1), 10_000)

    def test_an_engine_gets_the_address_of_the_interface_that_is_named(self):
        says = ("import json, sys; _, _, steps, address = sys.argv; "
                "address.startswith('10.77.2.') or sys.exit('AddressError: ' + address); "
                "[print(json.dumps({'step': step + 1, 'step_time_s': 0.1})) for step in range(int(steps))]")
        engines = os.path.join(self.services.directory, "engines")
        os.mkdir(engines)
        with open(os.path.join(engines, "says.json"), "w", encoding="utf-8") as file:
            json.dump({"name": "says", "version": "1", "format": "autocfg", "start": "rank",
                       "command": [sys.executable, "-c", says, "{file}", "{steps}", "{master_address}"],
                       "log": {"lines": "json", "step": {"field": "step"}, "step_time": {"field": "step_time_s", "unit": "s"},
                               "failure": {"pattern": r"^(\w*Error: .*)"}}}, file)
        hosts = self.hosts(2, interfaces=(Interface("eth0", 1), Interface("fast0", 2)), options=("--interface", "fast0", "--engines", engines))
        self.searched(hosts, *DATA_PARALLEL, "--engine", "says")

    def test_an_interface_that_others_do_not_reach(self):
        hosts = self.hosts(2, interfaces=(Interface("eth0", 1), Interface("dead0", 0)), options=("--interface", "dead0"))
        done = hosts.search(*DATA_PARALLEL)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"cannot connect to rank \d")

    def test_an_interface_that_is_not_there(self):
        hosts = self.hosts(1)
        refused = hosts.nodes["node0"].command(os.path.join(BIN, "autocfg-worker"), "--coordinator", hosts.address, "--insecure",
                                               "--interface", "eth9")
        done = subprocess.run(refused, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.splitlines(), ["autocfg-worker: --interface: no network interface 'eth9' is up with an address; "
                                                    "expected eth0, lo"])

    def test_a_host_disappears(self):
        hosts = self.hosts(3)
        study = hosts.begin(2, "disappears")
        _, workers = self.await_trial(hosts, study)
        hosts.lose(workers[0])
        hosts.follow(self, study)
        self.expect_all_measured(hosts, study)
        attempts = hosts.attempts(study)
        self.assertIn(LOST, {attempt.state for attempt in attempts})
        self.assertTrue(all(attempt.state == MEASURED for attempt in attempts if "workers/" + workers[0] not in attempt.workers))

    def test_a_host_disappears_while_its_peer_waits_for_it(self):
        hosts = self.hosts(3)
        with subprocess.Popen(hosts.on_client("search", *DATA_PARALLEL, "--cluster", "local:1x2", "--json"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as client:
            # The ranks time collectives: one waits for the other over UCX, which does not notice.
            busy = wait_for(lambda: [name for name, worker in hosts.workers.items()
                                     if re.search(r"calibration, attempt 1: starts", worker.text()) and descendants_of(worker.process.pid)],
                            "a calibration")
            wait_for(lambda: hosts.carried() > 100_000, "its ranks' messages")
            hosts.lose(busy[0])
            out, err = client.communicate(timeout=STUDY_LIMIT_S)
        self.assertEqual(client.returncode, 0, err)
        self.assertEqual(json.loads(out)["best"]["provenance"], "measured")

    def half_open(self, towards_head):
        hosts = self.hosts(3)
        study = hosts.begin(2, "half-open")
        _, workers = self.await_trial(hosts, study)
        victim = workers[0]
        self.network.set(*((victim, "head") if towards_head else ("head", victim)), cut=True)
        hosts.follow(self, study)
        self.expect_all_measured(hosts, study)
        self.assertIn(LOST, {attempt.state for attempt in hosts.attempts(study)})
        for one, other in ((hosts.head, hosts.nodes[victim]), (hosts.nodes[victim], hosts.head)):
            wait_for(lambda one=one, other=other: not one.run("ss", "-Htn", "state", "established", "dst", other.address),
                     f"{one.name} to close its connections with {other.name}", limit_s=KEEPALIVE_LIMIT_S)
        self.network.heal()
        study = hosts.begin(2, "healed")
        hosts.follow(self, study)
        self.expect_all_measured(hosts, study)

        def back():
            told = subprocess.run(hosts.on_client("workers", "--json"), capture_output=True, text=True, check=True).stdout
            return {one["hostname"] for one in json.loads(told) if one["takes_jobs"]} == set(hosts.nodes)
        wait_for(back, f"{victim} to take jobs again")
        self.assertIsNone(hosts.workers[victim].process.poll(), "the worker itself has survived")

    def test_a_worker_that_is_not_heard(self):
        self.half_open(towards_head=True)

    def test_a_worker_that_hears_nothing(self):
        self.half_open(towards_head=False)

    def test_a_link_between_workers_heals(self):
        hosts = self.hosts(2)
        with subprocess.Popen(hosts.on_client("search", *DATA_PARALLEL, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as client:
            wait_for(lambda: hosts.carried() > 100_000, "the ranks' messages")
            self.network.set("node0", "node1", cut=True)
            time.sleep(2)
            self.network.heal()
            out, err = client.communicate(timeout=STUDY_LIMIT_S)
        self.assertEqual(client.returncode, 0, err)
        self.assertEqual(json.loads(out)["best"]["provenance"], "measured")

    def test_a_half_open_link_between_workers(self):
        hosts = self.hosts(2)
        with subprocess.Popen(hosts.on_client("search", *DATA_PARALLEL), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as client:
            wait_for(hosts.studies, "the study")
            self.await_trial(hosts, "studies/1")
            self.network.set("node0", "node1", cut=True)
            _, err = client.communicate(timeout=STUDY_LIMIT_S)
        # UCX gives up if it was connecting. Else nobody notices, and the trial reaches its time limit.
        self.assertEqual(client.returncode, 1, err)
        self.assertRegex(err, r"gave no answer \((failed|timed_out) 1\): .*(cannot connect to rank|time limit)")
        self.network.heal()
        self.searched(hosts, *DATA_PARALLEL)


if __name__ == "__main__":
    if missing := why_not():
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main(verbosity=2)
