"""Steps the server's system clock by an hour, forward and back, while workers hold leases. No worker that renews may lose its lease, and a
dead worker's lease must end after its few seconds.

AUTOCFG_FAKE_CLOCK: the library that steps the clock of a process (tests/support/fake_clock). Without it, as under sanitizers, nothing is
tested.
"""

import mmap
import os
import struct
import threading
import time
import unittest

import grpc
from reflected_api import Api
from services import Services

FAKE_CLOCK = os.environ.get("AUTOCFG_FAKE_CLOCK", "")
LEASE_S = 3
FREED_WITHIN_S = 30  # far more than a lease, for a loaded machine; far less than the step
WORKERS = 6  # the first of them dies
CONTINUE = 1  # LeaseCommand

MODEL = {"name": "tiny", "layers": 8, "hidden": 64, "heads": 4, "vocab": 512, "max_seq_len": 32}
WORKLOAD = {"global_batch": 64, "seq_len": 32, "precision": "fp32"}
CLUSTER = {"name": "local", "local": True, "groups": [{"device": {"name": "cpu", "kind": "cpu", "memory_bytes": 1 << 30}, "nodes": 1,
                                                       "gpus_per_node": 2, "ranks_per_core": 1}]}


class SteppedClock:
    """The clock of a process that is started with `environment`."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.write(struct.pack("d", 0))
        with open(path, "r+b") as file:
            self._step = mmap.mmap(file.fileno(), 8)
        self.environment = {"FAKE_CLOCK": path, "LD_PRELOAD": FAKE_CLOCK}

    def step(self, seconds):
        self._step[:8] = struct.pack("d", seconds)


PLANNING_LIMIT_S = 60  # of all studies at once, on a loaded machine


class Holder:
    """A worker that takes jobs and does not work on them."""

    def __init__(self, api, name):
        self.api, self.name = api, "workers/" + name
        inventory = {"device_kind": "cpu", "slots": 2, "hostname": name}
        self.epoch = api.call("WorkerService", "RegisterWorker", worker=self.name, boot_id="boot", inventory=inventory).session_epoch

    def lease(self, wait_s):
        self.held = self.api.call("WorkerService", "LeaseWork", worker=self.name, session_epoch=self.epoch, wait_s=wait_s)
        return self.held.HasField("job")

    def lease_within(self, limit_s):
        end = time.monotonic() + limit_s
        while not self.lease(wait_s=5):
            if time.monotonic() > end:
                return False
        return True

    def renew(self):
        return self.api.call("WorkerService", "RenewLease", worker=self.name, session_epoch=self.epoch, lease_id=self.held.lease_id,
                             fencing_token=self.held.fencing_token).command


@unittest.skipUnless(FAKE_CLOCK, "AUTOCFG_FAKE_CLOCK names no library")
class ClockTest(unittest.TestCase):
    def check(self, step_s):
        with Services() as services:
            clock = SteppedClock(os.path.join(services.directory, "clock"))
            server, address = services.server("--lease-duration", f"{LEASE_S}s", environment=clock.environment)
            api = Api(address)
            for number in range(WORKERS):
                spec = api.message("SearchSpec")(model=dict(MODEL, name=f"tiny-{number}"), workload=WORKLOAD, cluster=CLUSTER, device="cpu",
                                                 exhaustive=True)
                study = api.call("StudyService", "CreateStudy", request_id=f"create-{number}", spec=spec).name
                api.call("StudyService", "StartStudy", name=study, request_id=f"start-{number}")
            holders = [Holder(Api(address), f"holder-{number}") for number in range(WORKERS)]
            ended, stop = [], threading.Event()

            def renew(holder):
                while not stop.wait(0.5):
                    try:
                        command = holder.renew()
                    except grpc.RpcError as error:
                        command = error.details()
                    if command != CONTINUE:
                        ended.append((holder.name, command))

            threads = []
            try:
                for holder in holders[::-1]:
                    self.assertTrue(holder.lease_within(PLANNING_LIMIT_S), holder.name)
                    if holder is not holders[0]:
                        threads.append(threading.Thread(target=renew, args=(holder,)))
                        threads[-1].start()
                self.assertEqual(holders[0].renew(), CONTINUE)
                dead, died = holders[0].held.job.name, time.monotonic()
                clock.step(step_s)
                self.assertEqual(holders[1].renew(), CONTINUE, "right after the step")
                spare = Holder(api, "spare")
                self.assertTrue(spare.lease_within(died + FREED_WITHIN_S - time.monotonic()), f"{dead} is not freed")
                self.assertEqual(spare.held.job.name, dead, "the job of a worker that renews is not given away")
                time.sleep(2 * LEASE_S)  # the others go on
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(ended, [], server.text())
            # The clock did step, for the server saw it.
            self.assertIn("the system's clock was stepped", server.text())
            self.assertEqual(server.stop(), 0)

    def test_a_step_forward_ends_no_lease(self):
        self.check(3600)

    def test_a_step_back_keeps_no_dead_workers_lease(self):
        self.check(-3600)


if __name__ == "__main__":
    unittest.main(verbosity=2)
