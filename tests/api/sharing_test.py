"""Studies of one coordinator by the command line: their weights, measurements that are reused, limits per owner."""

import json
import os
import signal
import subprocess
import unittest

from services import BIN, Services

SEARCH = ["search", "--model", "gpt2-tiny", "--cluster", "local:1x1", "--global-batch", "2", "--seq-len", "16", "--space", "mbs=1",
          "--space", "recompute=none", "--space", "attention=unfused", "--max-trials", "1", "--json"]


class SharingTest(unittest.TestCase):
    def autocfg(self, services, *arguments):
        return subprocess.run([os.path.join(BIN, "autocfg"), *arguments], capture_output=True, text=True, timeout=200, check=False,
                              env={**os.environ, "XDG_STATE_HOME": services.directory})

    def search(self, services, address, *more):
        done = self.autocfg(services, *SEARCH, "--coordinator", address, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_weight_is_kept_and_identical_plans_are_measured_once(self):
        with Services() as services:
            _, address = services.server("--max-open-studies-per-owner", "1")
            services.worker(address, "w", "--slots", "1", "--devices", "cpu")
            first = self.search(services, address, "--weight", "2.5")
            listed = json.loads(self.autocfg(services, "studies", "--coordinator", address, "--json").stdout)
            self.assertEqual([study["weight"] for study in listed], [2.5])
            self.assertEqual((first["counts"]["measured"], first["search"]["reused_trials"]), (1, 0))
            again = self.search(services, address)
            fresh = self.search(services, address, "--fresh")
            self.assertEqual((fresh["search"]["reused_trials"], fresh["search"]["reused_op_times"]), (0, 0))
            build = subprocess.run([os.path.join(BIN, "autocfg"), "--version"], capture_output=True, text=True, check=True).stdout
            one_revision = "-dirty" not in build and "+unknown" not in build
            self.assertEqual(again["search"]["reused_trials"] > 0, one_revision, build)
            self.assertEqual(again["search"]["reused_op_times"] > 0, one_revision, build)

    def test_an_owner_with_as_many_studies_as_allowed_is_told_so(self):
        with Services() as services:
            _, address = services.server("--max-open-studies-per-owner", "1")
            services.worker(address, "w", "--slots", "1", "--devices", "cpu").process.send_signal(signal.SIGSTOP)  # a study stays open
            services.start("first", ["autocfg", *SEARCH, "--coordinator", address]).said("study 1")
            another = [*SEARCH, "--coordinator", address]
            another[another.index("--seq-len") + 1] = "32"  # the same search would follow the first study
            refused = self.autocfg(services, *another)
            self.assertNotEqual(refused.returncode, 0)
            self.assertRegex(refused.stderr.splitlines()[-1], "has 1 study that has not ended, the most that this coordinator allows an owner; wait")


if __name__ == "__main__":
    unittest.main()
