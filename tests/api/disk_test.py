"""Fills the disk of a real server, a small file system in memory, in the middle of a study. Reads go on, writes answer UNAVAILABLE with one
line, and the study goes on by itself when there is room again.

Mounting takes root; otherwise nothing is tested.
"""

import contextlib
import os
import subprocess
import unittest

import grpc
from reflected_api import Api
from services import Services, wait_for

RUNNING, DONE, MEASURED = 2, 4, 3  # StudyState; TrialState
SIZE = 16 << 20  # more than the log of the database takes before it is written back
DEVICE = {"name": "a100-80gb-sxm", "kind": "cuda", "memory_bytes": 80 << 30, "memory_bytes_per_s": 2.0e12,
          "flops_per_s": {"bf16": 3.12e14, "fp16": 3.12e14, "fp32": 1.95e13}}
SPACE = {"mbs": ["1", "2", "4"], "recompute": ["none", "full"], "zero": ["0"], "attention": ["fused"], "tp_overlap": ["1"], "sp": ["0"], "grad_overlap": ["0"],
         "p2p_overlap": ["0"], "scatter_gather": ["0"], "split": ["even"]}


@contextlib.contextmanager
def small_disk(directory):
    """Mounts a small file system there. Yields False where this process may not mount."""
    os.mkdir(directory)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", directory], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(path):
    """Writes until the disk has no room."""
    with open(path, "wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(bytes(4096)) > 0:
                pass


class DiskTest(unittest.TestCase):
    def test_full_disk(self):
        with Services() as services:
            disk = os.path.join(services.directory, "disk")
            if not services.enter_context(small_disk(disk)):
                self.skipTest("mounting takes root")
            database = os.path.join(disk, "server.db")
            server = services.start("server", ["autocfg-server", "--listen", "localhost:0", "--db", database, "--lease-duration", "3s"])
            address = server.said(r"listening on (\S+)").group(1)
            services.worker(address, "one", "--devices", "cpu", "--slots", "2")
            api = Api(address)
            spec = api.message("SearchSpec")(
                model={"name": "gpt2-124m", "layers": 12, "hidden": 768, "heads": 12, "vocab": 50257, "max_seq_len": 1024},
                workload={"global_batch": 8, "seq_len": 256, "precision": "bf16"}, device="paced", exhaustive=True,
                cluster={"name": "a100:1x2", "groups": [{"device": DEVICE, "nodes": 1, "gpus_per_node": 2, "intra_node_bytes_per_s": 3e11,
                                                         "inter_node_bytes_per_s": 2e10}]})
            for name, values in SPACE.items():
                spec.space.add(name=name, values=values)
            study = api.call("StudyService", "CreateStudy", request_id="one", spec=spec).name
            api.call("StudyService", "StartStudy", name=study)
            trials = lambda: api.call("StudyService", "ListTrials", parent=study, page_size=200).trials
            measured = lambda: {trial.name for trial in trials() if trial.state == MEASURED}
            wait_for(measured, "a measured trial")

            filler = os.path.join(disk, "filler")
            fill(filler)
            # What the log has already reserved may still take a write.
            def refused():
                fill(filler + "_again")
                try:
                    api.call("StudyService", "CreateStudy", spec=spec)
                except grpc.RpcError as error:
                    return error
                return None
            error = wait_for(refused, "a write that has no room")
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE, error.details())
            self.assertIn("no space for database", error.details())
            self.assertNotIn("\n", error.details())
            before = measured()
            self.assertTrue(before, "reads go on")
            self.assertEqual(api.call("StudyService", "GetStudy", name=study).state, RUNNING)

            os.remove(filler)
            os.remove(filler + "_again")
            wait_for(lambda: api.call("StudyService", "GetStudy", name=study).state == DONE, "the end of the study", 90)
            self.assertLessEqual(before, measured())
            self.assertTrue(api.call("StudyService", "CreateStudy", spec=spec).name)
            api.close()
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
