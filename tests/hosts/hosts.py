"""A coordinator, workers and a client on hosts of their own (network.py)."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "api"))
# pylint: disable=wrong-import-position
from faults_test import DONE, LEASE_S, RUNNING, STUCK_S, STUDY_LIMIT_S, Cluster, descendants_of  # noqa: E402
from reflected_api import Api  # noqa: E402
from services import BIN  # noqa: E402

PORT = 7010
# One plan, whose ranks exchange gradients: its calibration has few ops.
DATA_PARALLEL = ["--model", "gpt2-tiny", "--global-batch", "16", "--space", "mbs=1", "--space", "recompute=none", "--space", "tp=1",
                 "--space", "pp=1", "--space", "zero=0", "--space", "grad_overlap=0", "--max-trials", "2"]


class Hosts(Cluster):
    """A coordinator on the host `head`, and workers on hosts of their own."""

    def __init__(self, services, network, nodes, slots=1, interfaces=(), options=()):  # pylint: disable=super-init-not-called
        self.services, self.network, self.slots, self.options = services, network, slots, options
        self.head = network.host("head", *interfaces)
        self.client = network.host("client")
        self.nodes = {name: network.host(name, *interfaces) for name in nodes}
        self.address = f"{self.head.address}:{PORT}"
        self.socket = os.path.join(services.directory, "socket")
        self.server = self.start_server()
        self.server.said(r"listening on")
        self.workers = {name: self.start_worker(name) for name in nodes}
        for worker in self.workers.values():
            worker.said("registered with")
        self.connect()
        self.longest_overdue_s = 0

    def start_server(self):
        return self.start("server", self.head, "autocfg-server", "--listen", self.address, "--insecure", "--listen", "unix:" + self.socket,
                          "--db", os.path.join(self.services.directory, "server.db"), "--lease-duration", f"{LEASE_S}s")

    def start(self, name, host, program, *arguments):
        return self.services.start(name, host.command(os.path.join(BIN, program), *arguments))

    def start_worker(self, name):
        return self.start(name, self.nodes[name], "autocfg-worker", "--coordinator", self.address, "--insecure", "--devices", "cpu",
                          "--slots", str(self.slots), *self.options)

    def connect(self):
        """The test itself calls over a Unix socket, which no fault of the network concerns."""
        self.api = Api("unix:" + self.socket)

    def on_client(self, verb, *arguments):
        """Returns the command of a client of the coordinator."""
        return self.client.command(os.path.join(BIN, "autocfg"), verb, *arguments, "--coordinator", self.address, "--insecure")

    def search(self, *arguments):
        return subprocess.run(self.on_client("search", *arguments, "--json"), capture_output=True, text=True, timeout=STUDY_LIMIT_S, check=False)

    def lose(self, name):
        """Ends a host as a power failure does: first nobody hears of it any more, then its processes are gone."""
        self.network.set(name, None, cut=True)
        self.network.set(None, name, cut=True)
        worker = self.workers.pop(name)
        for pid in [worker.process.pid, *descendants_of(worker.process.pid)]:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        worker.process.wait()

    def carried(self, network=1):
        """Returns the bytes that the workers' hosts have sent each other."""
        return sum(count for (source, target, its), count in self.network.bytes.items()
                   if its == network and source in self.nodes and target in self.nodes)

    def follow(self, test, study):
        """Waits for the study's end. Fails if a trial is stuck: its lease is not renewed but still held."""
        end = time.monotonic() + STUDY_LIMIT_S
        while True:
            state = self.call("StudyService", "GetStudy", name=study)
            if state.state == DONE:
                return
            overdue_s = self.overdue_s()
            self.longest_overdue_s = max(self.longest_overdue_s, overdue_s)
            test.assertEqual(state.state, RUNNING, state.message)
            test.assertLess(time.monotonic(), end, f"{study} does not end")
            test.assertLess(overdue_s, STUCK_S, f"a trial of {study} is stuck")
            time.sleep(0.05)

    def attempts(self, study):
        return [attempt for trial in self.trials(study) for attempt in trial.attempts]
