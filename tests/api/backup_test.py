"""Backs up the database of a server that commits 20 times a second. The backup ends, is intact, holds every study that was
acknowledged before it began, and a server can be started on it.

AUTOCFG_BACKUP_MB: size of the database in 10^6 bytes (default 40).
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import threading
import time
import unittest

import grpc
from reflected_api import Api
from services import BIN, Services, wait_for
from study_api_test import CLUSTER, MODEL, WORKLOAD

SIZE_MB = int(os.environ.get("AUTOCFG_BACKUP_MB", "40"))
COMMITS_PER_S = 20
BACKUP_LIMIT_S = 300  # only to see that it ends


class Writer(threading.Thread):
    """Creates studies at a steady rate."""

    def __init__(self, api):
        super().__init__()
        self.api, self.made, self.ending, self.error = api, [], threading.Event(), None

    def create(self, request_id):
        spec = self.api.message("SearchSpec")(model=MODEL, workload=WORKLOAD, cluster=CLUSTER, device="cpu")
        return self.api.call("StudyService", "CreateStudy", request_id=request_id, spec=spec).name

    def run(self):
        begin = time.monotonic()
        try:
            while not self.ending.is_set():
                self.made.append(self.create(f"study-{len(self.made)}"))
                time.sleep(max(0, begin + len(self.made) / COMMITS_PER_S - time.monotonic()))
        except grpc.RpcError as error:
            self.error = error

    def makes_more(self):
        """Waits until another study is created."""
        before = len(self.made)
        wait_for(lambda: len(self.made) > before or self.error, "another study")


def fill(path):
    """Gives study 1 trials that nobody reads."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        with db:
            db.execute("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
                       "INSERT INTO trials (study, number, plan_text, repeat, state, change, trial) "
                       "SELECT 1, i, 'plan ' || i, 0, 3, i, randomblob(20000) FROM n", (SIZE_MB * 10**6 // 20480,))


class BackupTest(unittest.TestCase):
    def test_backup_of_a_busy_server(self):
        with Services() as services:
            database = os.path.join(services.directory, "server.db")
            copy = os.path.join(services.directory, "copy.db")
            server, address = services.server()
            writer = Writer(Api(address))
            writer.create("first")
            writer.api.close()
            self.assertEqual(server.stop(), 0)
            fill(database)
            server = services.start("again", ["autocfg-server", "--listen", "localhost:0", "--db", database])
            writer.api = Api(server.said(r"listening on (\S+)").group(1))
            writer.start()
            try:
                writer.makes_more()
                before = list(writer.made)
                done = subprocess.run([os.path.join(BIN, "autocfg"), "db", "backup", "--db", database, "--output", copy, "--json"],
                                      capture_output=True, timeout=BACKUP_LIMIT_S, check=False)
                writer.makes_more()
            finally:
                writer.ending.set()
                writer.join()
            self.assertIsNone(writer.error)
            self.assertEqual((done.returncode, done.stderr), (0, b""), server.text())
            answer = json.loads(done.stdout)
            print(f"{answer['bytes']} bytes in {answer['wall_s']:.2f} s, {len(writer.made) - len(before)} commits meanwhile", flush=True)
            self.assertGreater(answer["bytes"], SIZE_MB * 10**6)
            self.assertEqual(answer["bytes"], os.path.getsize(copy))
            self.assertEqual(os.stat(copy).st_mode & 0o777, 0o600)
            self.assertGreater(len(before), 0)
            self.assertLessEqual(len(before) + 1, answer["studies"])
            self.assertLess(answer["studies"], len(writer.made) + 1)
            self.assertEqual(server.stop(), 0)
            with contextlib.closing(sqlite3.connect(f"file:{copy}?mode=ro", uri=True)) as db:
                self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            restored = services.start("restored", ["autocfg-server", "--listen", "localhost:0", "--db", copy])
            api = Api(restored.said(r"listening on (\S+)").group(1))
            for name in before:
                self.assertEqual(api.call("StudyService", "GetStudy", name=name).name, name)
            api.close()


if __name__ == "__main__":
    unittest.main()
