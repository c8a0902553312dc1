"""Restores a backup while a worker runs that restarted since. It registers again and goes on."""

import os
import shutil
import subprocess
import unittest

from reflected_api import Api
from services import BIN, Services, wait_for
from study_api_test import CLUSTER, MODEL, WORKLOAD

DONE = 4  # StudyState


class RestoreTest(unittest.TestCase):
    def test_a_worker_that_restarted_since_the_backup_goes_on(self):
        with Services() as services:
            database, copy = (os.path.join(services.directory, name) for name in ("server.db", "copy.db"))
            server, address = services.server()

            def worker(log):
                process = services.start(log, ["autocfg-worker", "--coordinator", address, "--name", "node", "--slots", "2", "--devices", "cpu"])
                process.said("registered with")
                return process

            # It ends without a word, so that the next one of its name begins another session.
            worker("first").kill()
            done = subprocess.run([os.path.join(BIN, "autocfg"), "db", "backup", "--db", database, "--output", copy],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            node = worker("second")
            self.assertEqual(server.stop(), 0)
            for name in os.listdir(services.directory):
                if name.startswith("server.db"):
                    os.remove(os.path.join(services.directory, name))
            shutil.copy(copy, database)
            services.start("restored", ["autocfg-server", "--listen", address, "--db", database]).said("listening on")
            node.said("registered again")
            api = Api(address)
            spec = api.message("SearchSpec")(model=MODEL, workload=WORKLOAD, cluster=CLUSTER, device="cpu", max_trials=1)
            study = api.call("StudyService", "CreateStudy", request_id="create", spec=spec).name
            api.call("StudyService", "StartStudy", name=study, request_id="start")
            wait_for(lambda: api.call("StudyService", "GetStudy", name=study).state == DONE, "the end of the study", limit_s=300)
            self.assertIsNone(node.process.poll(), node.text())
            self.assertEqual(node.stop(), 0)
            api.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
