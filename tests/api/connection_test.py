"""A connection without calls stays usable, although its client does not read from it meanwhile."""

import os
import subprocess
import sys
import time
import unittest

from reflected_api import Api
from services import Services

IDLE_S = 17  # the coordinator pings after 10 s, and gives up a peer that does not answer for 20 s
CALLER = "caller"  # the argument of the process that calls; its gRPC reads nothing between two calls


def call_twice(address):
    api = Api(address)
    api.call("StudyService", "ListStudies")
    time.sleep(IDLE_S)
    api.call("StudyService", "ListStudies")
    api.close()


class ConnectionTest(unittest.TestCase):
    def test_a_client_that_reads_nothing_between_its_calls(self):
        with Services() as services:
            server, address = services.server()
            caller = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), CALLER, address], capture_output=True, text=True,
                                    env={**os.environ, "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS": "0"}, timeout=IDLE_S + 120)
            self.assertEqual(caller.returncode, 0, caller.stderr)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    if sys.argv[1:2] == [CALLER]:
        call_twice(sys.argv[2])
    else:
        unittest.main(verbosity=2)
