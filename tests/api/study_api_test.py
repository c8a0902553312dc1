"""Tests the gRPC API as a third-party program uses it: from a model specification to a recommendation, with
python3-grpcio and the reflected descriptors."""

import unittest

import grpc
from reflected_api import Api
from services import Services

# StudyState and TrialState of the API.
CREATED, RUNNING, DONE = 1, 2, 4
MEASURED = 3

MODEL = {"name": "small", "layers": 2, "hidden": 64, "heads": 4, "vocab": 256, "max_seq_len": 32}
WORKLOAD = {"global_batch": 8, "seq_len": 32, "precision": "fp32"}
CLUSTER = {"name": "pool", "local": True,
           "groups": [{"device": {"name": "cpu", "kind": "cpu", "memory_bytes": 1 << 30}, "nodes": 1, "gpus_per_node": 2}]}


class StudyApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = Services()
        cls.services.__enter__()
        cls.addClassCleanup(cls.services.close)
        cls.server, cls.address = cls.services.server()
        cls.worker = cls.services.worker(cls.address, "one", "--devices", "cpu", "--slots", "2")

    def setUp(self):
        self.api = Api(self.address)
        self.addCleanup(self.api.close)

    def spec(self, **more):
        return self.api.message("SearchSpec")(model=MODEL, workload=WORKLOAD, cluster=CLUSTER, device="cpu", **more)

    def failure(self, code, service, method, **fields):
        """Expects that the call fails with this code. Returns its message."""
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.call(service, method, **fields)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def test_health_and_reflection(self):
        for service in ("", "autocfg.v1.StudyService", "autocfg.v1.WorkerService"):
            self.assertEqual(self.api.health(service), 1, service)
        self.assertLessEqual({"autocfg.v1.StudyService", "autocfg.v1.WorkerService", "grpc.health.v1.Health"}, set(self.api.services()))
        self.assertEqual(
            {"CreateStudy", "GetStudy", "ListStudies", "StartStudy", "PauseStudy", "ResumeStudy", "UpdateStudy", "CancelStudy", "DeleteStudy", "ListTrials",
             "GetTrial", "GetTrialLog", "RetryTrial", "GetRecommendation", "ExportConfig", "GetReport", "WatchStudy", "Predict", "ListRejected"},
            set(self.api.methods("StudyService")))
        self.assertEqual(
            {"RegisterWorker", "LeaseWork", "RenewLease", "Rendezvous", "ReportProgress", "AppendTrialLog", "ReportTrial", "DrainWorker",
             "DeregisterWorker", "ListWorkers"},
            set(self.api.methods("WorkerService")))

    def test_watch_resumes_after_disconnect(self):
        study = self.api.call("StudyService", "CreateStudy", request_id="search-1", spec=self.spec(max_trials=4))
        self.assertEqual(study.state, CREATED)
        self.assertEqual(study.owner, "local")
        again = self.api.call("StudyService", "CreateStudy", request_id="search-1", spec=self.spec(max_trials=4))
        self.assertEqual(again.name, study.name)
        self.api.call("StudyService", "StartStudy", name=study.name, request_id="start-1")

        # The stream is cut after the first measurement, on its own connection.
        first = Api(self.address)
        cursors, ended = [], {}
        stream = first.stream("StudyService", "WatchStudy", name=study.name)
        for event in stream:
            cursors.append(event.cursor)
            if event.trial.state == MEASURED:
                ended[event.trial.name] = event.trial
                break
        stream.cancel()
        first.close()
        self.assertTrue(ended)

        last = None
        for event in self.api.stream("StudyService", "WatchStudy", name=study.name, resume_cursor=cursors[-1]):
            if event.cursor != (cursors[-1] if cursors else 0):
                cursors.append(event.cursor)
            if event.trial.state == MEASURED:
                self.assertNotIn(event.trial.name, ended, "told twice")
                ended[event.trial.name] = event.trial
            last = event.study
        self.assertEqual(cursors, sorted(cursors))
        self.assertEqual(last.state, DONE, last.message)

        trials, token = [], ""
        while True:
            page = self.api.call("StudyService", "ListTrials", parent=study.name, page_size=2, page_token=token)
            trials += page.trials
            token = page.next_page_token
            if not token:
                break
        measured = {trial.name for trial in trials if trial.state == MEASURED}
        self.assertEqual(measured, set(ended), "the two streams together told of every measured trial")
        for trial in trials:
            self.assertEqual(self.api.call("StudyService", "GetTrial", name=trial.name), trial)
            self.assertEqual([a.workers[:] for a in trial.attempts if a.state == MEASURED], [["workers/one"]])

        answer = self.api.call("StudyService", "GetRecommendation", study=study.name)
        self.assertEqual(answer.provenance, "measured")
        self.assertGreater(answer.best.measured.median_step_time_s, 0)
        self.assertEqual(answer.best.plan.tp * answer.best.plan.pp * answer.best.plan.dp, 2)
        self.assertEqual(answer.counts.enumerated, answer.counts.illegal + answer.counts.out_of_memory + answer.counts.predicted)
        self.assertGreaterEqual(answer.counts.measured, 1)
        self.assertLessEqual(answer.counts.measured, 4)

    def test_validate_only(self):
        study = self.api.call("StudyService", "CreateStudy", validate_only=True, spec=self.spec(predict_only=True))
        self.assertEqual(study.name, "")
        self.assertEqual(len(study.fingerprint), 16)
        self.failure(grpc.StatusCode.NOT_FOUND, "StudyService", "GetStudy", name="studies/999999")

    def test_predictions(self):
        plan = {"tp": 1, "pp": 1, "dp": 1, "micro_batch": 1}
        device = {"name": "gpu", "kind": "cuda", "memory_bytes": 80 << 30, "memory_bytes_per_s": 2e12, "flops_per_s": {"bf16": 3e14}}
        cluster = {"groups": [{"device": device, "nodes": 1, "gpus_per_node": 1, "intra_node_bytes_per_s": 3e11, "inter_node_bytes_per_s": 2e10}]}
        workload = {"global_batch": 8, "seq_len": 32, "precision": "bf16"}
        good = {"model": MODEL, "cluster": cluster, "workload": workload, "plan": plan}
        answers = self.api.exchange("StudyService", "Predict", [
            {"id": "a", **good}, {"id": "b", **good, "plan": {**plan, "tp": 3}}, {"id": "c"}, {"id": "d", **good}])
        self.assertEqual([answer.id for answer in answers], ["a", "b", "c", "d"])
        for answer in (answers[0], answers[3]):
            self.assertEqual(answer.error, "")
            self.assertTrue(answer.prediction.feasible)
            self.assertGreater(answer.prediction.step_time_s, 0)
        for answer in answers[1:3]:
            self.assertNotEqual(answer.error, "")
            self.assertFalse(answer.HasField("prediction"))

    def test_errors_say_what_is_wrong(self):
        bad = self.spec()
        bad.model.layers = -3
        self.assertIn("layers", self.failure(grpc.StatusCode.INVALID_ARGUMENT, "StudyService", "CreateStudy", spec=bad))
        self.assertIn("studies/", self.failure(grpc.StatusCode.INVALID_ARGUMENT, "StudyService", "GetStudy", name="1"))
        self.failure(grpc.StatusCode.INVALID_ARGUMENT, "StudyService", "ListStudies", page_token="x")
        huge = self.spec()
        huge.model.name = "x" * (20 << 20)
        self.failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "StudyService", "CreateStudy", spec=huge)
        self.assertIn("megatron", self.failure(grpc.StatusCode.INVALID_ARGUMENT, "StudyService", "ExportConfig", study="studies/1", format="x"))
        self.failure(grpc.StatusCode.NOT_FOUND, "StudyService", "ExportConfig", study="studies/99", format="megatron")
        self.assertEqual(self.api.health(""), 1)

    def test_unparsable_bytes(self):
        for method in ("StudyService/CreateStudy", "StudyService/WatchStudy", "WorkerService/LeaseWork", "WorkerService/ReportTrial"):
            call = (self.api.channel.unary_stream if method.endswith("WatchStudy") else self.api.channel.unary_unary)(
                "/autocfg.v1." + method, request_serializer=lambda raw: raw, response_deserializer=lambda raw: raw)
            with self.assertRaises(grpc.RpcError) as caught:
                answer = call(b"\x0a\xff\xff\xff\xff\xff", timeout=30)
                list(answer)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT, method)
            self.assertIn("cannot be parsed", caught.exception.details(), method)
        self.assertEqual(self.api.health(""), 1)

    def test_workers_are_listed(self):
        workers = self.api.call("WorkerService", "ListWorkers").workers
        self.assertEqual([worker.name for worker in workers], ["workers/one"])
        self.assertEqual(workers[0].inventory.slots, 2)
        self.assertEqual(workers[0].inventory.device_kind, "cpu")


class OrderlyEndTest(unittest.TestCase):
    def test_drain_and_stop(self):
        with Services() as services:
            server, address = services.server()
            worker = services.worker(address, "one", "--devices", "cpu", "--slots", "2")
            api = Api(address)
            api.call("WorkerService", "DrainWorker", worker="workers/one", request_id="drain-1")
            self.assertEqual(worker.process.wait(timeout=30), 0, worker.text())
            self.assertEqual(len(api.call("WorkerService", "ListWorkers").workers), 0)
            api.close()
            self.assertEqual(server.stop(), 0, server.text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
