"""Tests the command line with a coordinator and workers in separate processes."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
import unittest

from reflected_api import Api
from services import BIN, Services, wait_for

MEASURED, CANCELLED = 3, 7

# Some dozen plans: without the options of overlap and most schedules, which would make them hundreds.
PACED = ["--model", "gpt2-124m", "--cluster", "a100-80gb-sxm:1x4", "--device", "paced", "--global-batch", "8", "--seq-len", "256", "--exhaustive",
         "--space", "mbs=1", "--space", "recompute=none", "--space", "zero=0", "--space", "split=even",
         "--space", "tp_overlap=1", "--space", "grad_overlap=0", "--space", "p2p_overlap=0", "--space", "schedule=1f1b,gpipe", "--space", "vpp=1"]
SMALL = ["--model", "gpt2-tiny", "--global-batch", "16", "--space", "mbs=1,2", "--space", "recompute=none", "--max-trials", "3"]


def autocfg(*arguments, **more):
    return subprocess.run([os.path.join(BIN, "autocfg"), *arguments], capture_output=True, text=True, timeout=300, check=False, **more)


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.services = Services()
        self.services.__enter__()
        self.addCleanup(self.services.close)
        self.server, self.address = self.services.server("--lease-duration", "3s")

    def workers(self, **slots):
        return {name: self.services.worker(self.address, name, "--devices", "cpu", "--slots", str(count)) for name, count in slots.items()}

    def at(self, *arguments):
        return [*arguments, "--coordinator", self.address]

    def run_ok(self, *arguments):
        done = autocfg(*self.at(*arguments))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def api(self):
        api = Api(self.address)
        self.addCleanup(api.close)
        return api

    def trials(self, study="1"):
        return json.loads(self.run_ok("trials", "--study", study, "--json"))

    def in_use(self):
        return {worker["worker"]: worker["ranks_in_use"] for worker in json.loads(self.run_ok("workers", "--json"))}

    def test_a_plan_of_four_ranks_on_two_workers_of_two(self):
        self.workers(one=2, two=2)
        answer = json.loads(self.run_ok("search", *SMALL, "--json"))
        plan = answer["best"]["plan"]
        self.assertEqual(plan["tp"] * plan["pp"] * plan["dp"], 4)
        self.assertEqual(answer["best"]["provenance"], "measured")
        self.assertEqual(answer["counts"]["measured"], 3)
        self.assertEqual(answer["coordinator"], self.address)
        for trial in self.trials():
            self.assertEqual([sorted(a["workers"]) for a in trial["attempts"]], [["workers/one", "workers/two"]])
        table = self.run_ok("workers")
        self.assertIn("active", table)
        self.assertIn("two", table)
        studies = json.loads(self.run_ok("studies", "--json"))
        self.assertEqual([study["state"] for study in studies], ["done"])
        self.assertIn("study 1 done", self.run_ok("watch"))
        refused = autocfg(*self.at("cancel", "--study", "1"))
        self.assertEqual(refused.returncode, 2, refused.stdout)
        self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)

    def test_eight_single_slot_workers_match_one_process(self):
        self.workers(**{f"w{i}": 1 for i in range(8)})
        eight = [argument.replace("1x4", "1x8") for argument in PACED]
        there = json.loads(self.run_ok("search", *eight, "--json"))
        here = autocfg("search", *eight, "--json", "--db", os.path.join(self.services.directory, "here.db"))
        self.assertEqual(here.returncode, 0, here.stderr)
        here = json.loads(here.stdout)
        self.assertEqual(there["best"]["plan"], here["best"]["plan"])
        self.assertEqual(there["best"]["measured"]["step_time_s"], here["best"]["measured"]["step_time_s"])
        self.assertEqual(there["counts"], here["counts"])
        for trial in self.trials():
            self.assertEqual(len(trial["attempts"][0]["workers"]), 8)

    def test_small_jobs_run_concurrently(self):
        self.workers(large=4)
        two = [argument.replace("1x4", "1x2") for argument in PACED]
        self.run_ok("search", *two)
        trials = self.api().call("StudyService", "ListTrials", parent="studies/1", page_size=200).trials
        attempts = sorted((a.start_time_s, a.end_time_s) for trial in trials for a in trial.attempts)
        overlaps = [later for earlier, later in zip(attempts, attempts[1:]) if later[0] < earlier[1]]
        self.assertTrue(overlaps, attempts)

    def test_two_clients_at_once(self):
        self.workers(one=2, two=2)
        two = [argument.replace("1x4", "1x2") for argument in PACED]
        clients = [subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *arguments, "--json")], stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL) for arguments in (PACED, two)]
        answers = [client.communicate(timeout=300)[0] for client in clients]
        self.assertEqual([client.returncode for client in clients], [0, 0])
        self.assertEqual([json.loads(answer)["counts"]["measured"] > 0 for answer in answers], [True, True])

    def test_cancel_by_another_client(self):
        self.workers(one=2)  # too few ranks: the study waits
        api = self.api()
        with subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *PACED)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as client:
            waiting = wait_for(lambda: next((study["waiting"] for study in json.loads(self.run_ok("studies", "--json")) if study["waiting"]), ""),
                               "why the study waits")
            self.assertIn("4", waiting)
            self.assertEqual(self.run_ok("cancel", "--study", "1"), "study 1 cancelled\n")
            out, err = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 1)
        self.assertIn("(predicted)", out)  # the best so far
        self.assertIn("study 1 cancelled", err)
        self.assertTrue(all(trial.state == CANCELLED for trial in api.call("StudyService", "ListTrials", parent="studies/1").trials))

    def test_pause_resume_and_delete(self):
        self.workers(one=2)  # too few ranks: the study waits
        with subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *PACED)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
            wait_for(lambda: json.loads(self.run_ok("studies", "--json")), "the study")
            client.send_signal(signal.SIGINT)
            client.communicate(timeout=60)
        self.assertEqual(self.run_ok("pause", "1"), "study 1 paused\n")
        self.assertEqual(self.run_ok("resume", "1"), "study 1 running\n")
        self.assertIn("cancel or pause it first", autocfg(*self.at("delete", "1")).stderr)
        self.assertEqual(self.run_ok("pause", "1"), "study 1 paused\n")
        self.assertEqual(self.run_ok("update", "1", "--weight", "2"), "study 1 has weight 2\n")
        self.assertEqual(json.loads(self.run_ok("studies", "--json"))[0]["weight"], 2)
        self.assertEqual(self.run_ok("delete", "1"), "study 1 deleted\n")
        self.assertEqual(json.loads(self.run_ok("studies", "--json")), [])

    def test_study_continues_after_the_client_leaves(self):
        self.workers(one=2)
        with subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *PACED)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as client:
            wait_for(lambda: json.loads(self.run_ok("studies", "--json")), "the study")
            client.send_signal(signal.SIGINT)
            _, err = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 130)
        self.assertIn("the study continues", err)
        self.workers(two=2)  # now there are enough
        lines = self.run_ok("watch", "--study", "1").splitlines()
        self.assertTrue(lines[-1].startswith("study 1 done"), lines[-1])
        self.assertGreater(sum("measured" in line for line in lines), 3)

    def test_client_survives_server_restart(self):
        self.workers(one=2)
        with subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *PACED, "--json")], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as client:
            wait_for(lambda: json.loads(self.run_ok("studies", "--json")), "the study")
            self.assertEqual(self.server.stop(), 0, self.server.text())
            time.sleep(6)  # longer than a client waits for a connection
            self.server = self.services.start("server", ["autocfg-server", "--listen", self.address, "--lease-duration", "3s", "--db",
                                                         os.path.join(self.services.directory, "server.db")])
            self.workers(two=2)
            out, _ = client.communicate(timeout=240)  # 47 s on two idle cores
        self.assertEqual(client.returncode, 0)
        self.assertEqual(json.loads(out)["best"]["provenance"], "measured")

    def test_killed_worker_stops_the_rest_of_its_gang(self):
        workers = self.workers(one=2, two=2)
        with subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *SMALL)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
            wait_for(lambda: self.in_use() == {"workers/one": 2, "workers/two": 2}, "the gang")
            workers["one"].kill()
            killed = time.monotonic()
            wait_for(lambda: self.in_use()["workers/two"] == 0, "the other worker to be free", limit_s=30)
            print(f"free {time.monotonic() - killed:.2f} s after the kill", flush=True)
            self.workers(one=2)
            out, _ = client.communicate(timeout=300)
        self.assertEqual(client.returncode, 0)
        self.assertIn(b"best plan", out)

    def sql(self, text):
        """Executes SQL in the server's database, as another program would."""
        with contextlib.closing(sqlite3.connect(os.path.join(self.services.directory, "server.db"), timeout=20)) as db:
            db.execute(text)
            db.commit()

    def test_search_continues_once_the_storage_works(self):
        self.workers(one=4)
        self.sql("CREATE TRIGGER broken BEFORE INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'no jobs today'); END")
        for _ in range(2):
            failed = autocfg(*self.at("search", *SMALL))
            self.assertEqual(failed.returncode, 1, failed.stderr)
            self.assertIn("no jobs today", failed.stderr.splitlines()[-1])
        self.assertIn("no jobs today", self.run_ok("studies"))
        self.sql("DROP TRIGGER broken")
        self.run_ok("search", *SMALL)
        self.server.said("studies/1 continues: its storage works again")
        self.assertEqual(self.server.text().count("studies/1 waits for its storage"), 1)
        self.assertEqual(len(json.loads(self.run_ok("studies", "--json"))), 1)

    def test_every_trial_fails(self):
        api = self.api()
        inventory = api.message("Inventory")(hostname="elsewhere", device_kind="cpu", slots=4)
        session = api.call("WorkerService", "RegisterWorker", worker="workers/fails", boot_id="1", inventory=inventory).session_epoch
        who = {"worker": "workers/fails", "session_epoch": session}
        with subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *PACED, "--max-trials", "3")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as client:
            while client.poll() is None:
                lease = api.call("WorkerService", "LeaseWork", wait_s=0.2, **who)
                if lease.HasField("job"):
                    api.call("WorkerService", "ReportTrial", lease_id=lease.lease_id, fencing_token=lease.fencing_token,
                             attempt=lease.job.attempt, request_id=lease.lease_id, outcome=3, failure=1, message="rank 0: \x1b[31mboom\n", **who)
            out, err = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 1, err)
        self.assertIn("(predicted)", out)
        self.assertNotIn("\x1b", out + err)
        self.assertIn("3 of 3 trials gave no answer (failed 3): rank 0:", err)
        self.assertIn("no trial gave an answer", err.splitlines()[-1])
        table = self.run_ok("trials")
        self.assertNotIn("\x1b", table)
        self.assertEqual(table.count("rank 0: [31mboom"), 3, table)

    def test_drain_lets_a_job_finish(self):
        workers = self.workers(one=2, two=2)
        with subprocess.Popen([os.path.join(BIN, "autocfg"), *self.at("search", *SMALL)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
            wait_for(lambda: self.in_use() == {"workers/one": 2, "workers/two": 2}, "the gang")
            self.assertIn("workers/one is draining", self.run_ok("workers", "--drain", "one"))
            self.assertEqual(workers["one"].process.wait(timeout=120), 0, workers["one"].text())
            self.workers(three=2)
            client.communicate(timeout=300)
        self.assertEqual(client.returncode, 0)
        ended = workers["one"].text()
        self.assertIn("reported OUTCOME_MEASURED", ended)
        self.assertNotIn("CANCELLED", ended)


if __name__ == "__main__":
    unittest.main(verbosity=2)
