"""Reads the metrics of a server as Prometheus does: by its client's parser, with and without a token. Compares them with the table of
docs/operations.md.
"""

import os
import re
import unittest
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families
from reflected_api import Api
from services import Services, wait_for

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEASE_S = 3

MODEL = {"name": "tiny", "layers": 2, "hidden": 32, "heads": 2, "vocab": 64, "max_seq_len": 32}
WORKLOAD = {"global_batch": 8, "seq_len": 32, "precision": "fp32"}
CLUSTER = {"name": "local", "local": True, "groups": [{"device": {"name": "cpu", "kind": "cpu", "memory_bytes": 1 << 30}, "nodes": 1,
                                                       "gpus_per_node": 2, "ranks_per_core": 1}]}
SPACE = [{"name": name, "values": [value]} for name, value in  # few ops
         (("tp", "1"), ("pp", "1"), ("mbs", "1"), ("recompute", "none"), ("attention", "unfused"), ("zero", "0"))]


def scrape(pages, token=None):
    request = urllib.request.Request(pages + "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        if answer.headers["Content-Type"] != "text/plain; version=0.0.4; charset=utf-8":
            raise AssertionError(answer.headers["Content-Type"])
        return answer.read().decode()


def families_of(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families, name, **labels):
    """The value of a sample; its family is named without _total and the like."""
    found = [sample.value for family in families.values() for sample in family.samples if sample.name == name and sample.labels == labels]
    if len(found) != 1:
        raise AssertionError(f"{name}{labels}: {found}")
    return found[0]


def documented():
    """The rows of the table: {name: set of labels}."""
    with open(os.path.join(SOURCE, "docs/operations.md"), encoding="utf-8") as file:
        section = re.search(r"^## Metrics\n(.*?)^## ", file.read(), re.MULTILINE | re.DOTALL).group(1)
    rows = re.findall(r"^\| `([a-z_]+)`(?: by ([^|]*))? \| (counter|gauge|histogram) \|", section, re.MULTILINE)
    return {name: (kind, frozenset(re.findall(r"`([a-z_]+)`", labels))) for name, labels, kind in rows}


class MetricsTest(unittest.TestCase):
    def start(self, services, *arguments):
        server, address = services.server("--http", "127.0.0.1:0", "--lease-duration", f"{LEASE_S}s", *arguments)
        return server, address, server.said(r"pages at (\S+)").group(1)

    def test_metrics_follow_a_study_and_are_all_documented(self):
        with Services() as services:
            server, address, pages = self.start(services)
            api = Api(address)
            self.assertEqual(value(families_of(scrape(pages)), "autocfg_jobs_queued"), 0)
            spec = api.message("SearchSpec")(model=MODEL, workload=WORKLOAD, cluster=CLUSTER, device="cpu", exhaustive=True, space=SPACE)
            study = api.call("StudyService", "CreateStudy", request_id="create", spec=spec).name
            api.call("StudyService", "StartStudy", name=study, request_id="start")
            # A worker that takes a job and disappears.
            inventory = {"device_kind": "cpu", "slots": 2, "hostname": "holder"}
            epoch = api.call("WorkerService", "RegisterWorker", worker="workers/holder", boot_id="boot", inventory=inventory).session_epoch
            wait_for(lambda: api.call("WorkerService", "LeaseWork", worker="workers/holder", session_epoch=epoch, wait_s=5).HasField("job"), "a job")
            expired = wait_for(lambda: value(families_of(scrape(pages)), "autocfg_leases_ended_total", end="expired"), "the end of the lease")
            self.assertEqual(expired, 1)
            self.assertEqual(value(families_of(scrape(pages)), "autocfg_studies", state="running"), 1)
            worker = services.worker(address, "real", "--slots", "2", "--devices", "cpu")

            def measured():
                read = families_of(scrape(pages))
                return read if value(read, "autocfg_trials_total", outcome="measured") else None

            families = wait_for(measured, "a trial that is measured", limit_s=300)
            self.assertGreaterEqual(value(families, "autocfg_leases_granted_total"), 3, "the lost calibration, its repetition, a trial")
            self.assertGreaterEqual(value(families, "autocfg_leases_ended_total", end="reported"), 2)
            self.assertEqual(sum(value(families, "autocfg_studies", state=state) for state in ("running", "done")), 1)
            self.assertGreater(value(families, "autocfg_store_commit_seconds_count"), 5)
            self.assertGreaterEqual(value(families, "autocfg_lease_wait_seconds_count"), 3)
            self.assertEqual(value(families, "autocfg_rpcs_total", method="StudyService/CreateStudy", code="OK"), 1)
            self.assertEqual(value(families, "autocfg_rpc_duration_seconds_count", method="StudyService/StartStudy"), 1)
            self.assertGreater(value(families, "autocfg_database_bytes", file="database"), 0)
            self.assertGreater(value(families, "autocfg_database_bytes", file="log"), 4096)
            self.assertEqual(value(families, "autocfg_workers", state="active") + value(families, "autocfg_workers", state="silent"), 2)
            self.assertGreater(value(families, "process_resident_memory_bytes"), 1 << 20)
            self.check_form(families)
            # prometheus_client drops _total of counters.
            shown = {name + ("_total" if family.type == "counter" else ""):
                     (family.type, frozenset(label for sample in family.samples for label in sample.labels if label != "le"))
                     for name, family in families.items()}
            self.assertEqual(shown, documented())
            worker.stop()
            self.assertEqual(server.stop(), 0)

    def check_form(self, families):
        """Names and values as Prometheus' conventions have them."""
        for name, family in families.items():
            self.assertTrue(family.documentation.endswith("."), name)
            self.assertRegex(name, r"^(autocfg|process)_[a-z_]+$")
            if family.type == "histogram":
                self.assertTrue(name.endswith("_seconds"), name)
                counts = {}
                for sample in family.samples:
                    if sample.name.endswith("_bucket"):
                        series = tuple(sorted((key, label) for key, label in sample.labels.items() if key != "le"))
                        counts.setdefault(series, []).append(sample.value)
                for series, buckets in counts.items():
                    self.assertEqual(buckets, sorted(buckets), f"{name}{series} is not cumulative")
                    total = [sample.value for sample in family.samples if sample.name == name + "_count" and
                             tuple(sorted(sample.labels.items())) == series]
                    self.assertEqual(total, buckets[-1:], f"{name}{series}")
            for sample in family.samples:
                self.assertGreaterEqual(sample.value, 0, sample)

    def test_metrics_need_a_token_that_reads(self):
        with Services() as services:
            socket = "unix:" + os.path.join(services.directory, "admin.sock")
            server, _, pages = self.start(services, "--listen", socket, "--tokens")
            tokens = {}
            for role in ("read", "worker"):
                maker = services.start(role, ["autocfg", "token", "create", role, "--role", role, "--coordinator", socket])
                self.assertEqual(maker.process.wait(timeout=60), 0, maker.text())
                tokens[role] = maker.text().strip().splitlines()[-1]
            for token, status in ((None, 401), ("wrong", 401), (tokens["worker"], 403)):
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    scrape(pages, token)
                self.assertEqual(refused.exception.code, status)
            self.assertIn("autocfg_build_info", families_of(scrape(pages, tokens["read"])))
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
