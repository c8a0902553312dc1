"""Installs the wheel of the build into a virtual environment, and uses the package `autocfg` from there against a real server and
worker. Left out where the build has no wheel."""

import dataclasses
import itertools
import os
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
import installed_package
from services import Services

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = {"Model": "ModelSpec", "Device": "DeviceSpec", "Cluster": "ClusterSpec", "Plan": "ParallelPlan", "Question": "PredictRequest",
         "Answer": "PredictResponse", "Event": "StudyEvent"}  # of the dataclasses whose message has another name
USER = """
import autocfg

def best(coordinator: autocfg.Coordinator, spec: autocfg.SearchSpec) -> str:
    search = autocfg.search(coordinator, spec)
    for event in search:
        reveal_type(event.study.phase)
    answer = search.result()
    return answer.best.plan_text if answer.best else answer.nothing_fits
"""


def setUpModule():
    global autocfg, python_of_venv
    python_of_venv = installed_package.install(unittest.addModuleCleanup)
    autocfg = installed_package.imported(python_of_venv, unittest.addModuleCleanup)


def small(**more):
    return autocfg.SearchSpec(**{
        "model": autocfg.Model(name="small", layers=2, hidden=64, heads=4, vocab=256), "cluster": autocfg.Cluster(local=True),
        "workload": autocfg.Workload(global_batch=8, seq_len=32), "space": [autocfg.SpaceAxis(name="recompute", values=["none"])],
        "max_trials": 2, **more})


def question(plan="tp=2,dp=4", **more):
    device = autocfg.Device(kind="cuda", memory_bytes=80 << 30, memory_bytes_per_s=2e12, flops_per_s={"bf16": 3.12e14})
    group = autocfg.NodeGroup(device=device, nodes=1, gpus_per_node=8, intra_node_bytes_per_s=3e11)
    return autocfg.Question(**{
        "model": autocfg.Model(layers=24, hidden=2048, heads=16, vocab=51200), "cluster": autocfg.Cluster(groups=[group]),
        "workload": autocfg.Workload(global_batch=32, seq_len=2048), "plan": autocfg.Plan.parse(plan), **more})


class Values(unittest.TestCase):
    def test_the_dataclasses_have_every_field_of_their_messages(self):
        from autocfg import types
        from autocfg.v1 import model_pb2, study_service_pb2
        messages = {name: one for file in (model_pb2, study_service_pb2) for name, one in file.DESCRIPTOR.message_types_by_name.items()}
        messages.update({"Calibration" + one.name: one for one in messages["Calibration"].nested_types})
        count = 0
        for name, cls in vars(types).items():
            if not dataclasses.is_dataclass(cls):
                continue
            count += 1
            message = messages[NAMES.get(name, name)]
            self.assertEqual({field.name for field in dataclasses.fields(cls)}, set(message.fields_by_name),
                             f"proto/python/autocfg/types.py: {name} and {message.full_name} differ")
            self.assertIn(name, autocfg.__all__)
        self.assertGreater(count, 25)
        for enum, descriptor in ((autocfg.StudyState, study_service_pb2.StudyState), (autocfg.TrialState, study_service_pb2.TrialState)):
            self.assertEqual([one.value for one in enum], [name.split("_STATE_")[1] for name in descriptor.keys()])

    def test_requests_arrive_whole(self):
        from autocfg import _convert
        from autocfg.v1 import study_service_pb2
        spec = small(cluster=autocfg.Cluster(groups=[autocfg.NodeGroup(
            device=autocfg.Device(kind="cuda", memory_bytes=5, flops_per_s={"bf16": 1.5}, overhead_bytes=0,
                                  efficiency=autocfg.DeviceEfficiency(matmul=0.5)), nodes=2, gpus_per_node=8)],
            calibration=autocfg.Calibration(
                measurements=3, one_node_sigma=0.1, many_nodes_sigma=0.2, layers=autocfg.CalibrationBlock(
                    prior_sigma=0.1, own=0.2, octaves=3, irregular=[autocfg.CalibrationIrregularShapes(
                        hidden=1024, seq_len=2048, micro_batch=1, tp=2, all_micro_batches=True, sigma=0.3)]))), memory_margin=0.0)
        message = _convert.fill(study_service_pb2.SearchSpec(), spec)
        device = message.cluster.groups[0].device
        self.assertEqual((device.memory_bytes, dict(device.flops_per_s), device.efficiency.matmul), (5, {"bf16": 1.5}, 0.5))
        self.assertTrue(device.HasField("overhead_bytes"))
        self.assertTrue(message.HasField("memory_margin"))
        self.assertFalse(message.model.HasField("bias"))
        self.assertEqual(list(message.space[0].values), ["none"])
        again = _convert.read(autocfg.SearchSpec, message)
        self.assertEqual(_convert.fill(study_service_pb2.SearchSpec(), again), message)
        self.assertIsNone(again.model.bias)
        self.assertEqual(again.cluster.calibration.measurements, 3)
        self.assertTrue(again.cluster.calibration.layers.irregular[0].all_micro_batches)

    def test_a_state_of_a_newer_coordinator_is_unspecified(self):
        from autocfg import _convert
        from autocfg.v1 import study_service_pb2
        self.assertIs(_convert.read(autocfg.Study, study_service_pb2.Study(state=99)).state, autocfg.StudyState.UNSPECIFIED)
        self.assertIs(_convert.read(autocfg.Trial, study_service_pb2.Trial(state=6)).state, autocfg.TrialState.TIMED_OUT)

    def test_wrong_values_name_their_field(self):
        from autocfg import _convert
        from autocfg.v1 import model_pb2
        for value, name in ((autocfg.Workload(global_batch="8"), "Workload.global_batch is '8'"),
                            (autocfg.Workload(global_batch=1 << 70), "Workload.global_batch is 1180591620717411303424"),
                            (autocfg.Model(layers=1.5, hidden=1, heads=1, vocab=1), "Model.layers is 1.5")):
            message = model_pb2.Workload() if isinstance(value, autocfg.Workload) else model_pb2.ModelSpec()
            with self.assertRaisesRegex(autocfg.InvalidArgument, "^" + name.replace(".", r"\.")) as caught:
                _convert.fill(message, value)
            self.assertNotIn("\n", str(caught.exception))
        with self.assertRaisesRegex(autocfg.InvalidArgument, "^SearchSpec.model is 'gpt2'"):
            from autocfg.v1 import study_service_pb2
            _convert.fill(study_service_pb2.SearchSpec(), small(model="gpt2"))

    def test_plans_have_a_text_form(self):
        self.assertEqual(autocfg.Plan.parse("tp = 8, mbs= 2,sp=1,zero=1,split=9+2x3,recompute=full:2,attention=unfused"),
                         autocfg.Plan(tp=8, micro_batch=2, sequence_parallel=True, zero_stage=1, split="9+2x3", recompute="full:2", attention="unfused"))
        for text, said in (("", "it is empty"), ("tp=2,", "'tp=2,' has an empty part"), ("tp", "'tp' is not of the form option=value"),
                           ("tp=2,xp=3", "unknown option 'xp'; expected one of tp, pp"), ("schedul=3", "unknown option 'schedul'; did you mean schedule?"),
                           ("micro_batch=2", "unknown option 'micro_batch'; did you mean mbs?"), ("mbs=1,mbs=2", "mbs is named twice"),
                           ("sp=2", "sp=2 is not valid; it must be 0 or 1"), ("zero=4", "zero=4 is not valid; it must be one of 0, 1, 2, 3"),
                           ("tp_overlap=3", "it must be one of 1, 2, 4, 8"), ("schedule=1F1B", "it must be one of gpipe, 1f1b, interleaved, zb-h1"),
                           ("recompute=full:0", "full, or full:K with K at least 1"), ("recompute=selective:mlp+mlp", "is not valid"),
                           ("recompute=selective:", "is not valid"), ("split=9+x", "it must be even, auto, or layers"),
                           ("split=3x", "it must be even, auto, or layers"), ("attention=flash\n[2J", "attention='flash"), ("schedule=", "schedule= is not")):
            with self.assertRaises(autocfg.InvalidArgument, msg=text) as caught:
                autocfg.Plan.parse(text)
            self.assertRegex(str(caught.exception), "^plan: ")
            self.assertIn(said, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))
        for value in ("two", "-1", "0", "+2", "1 2", "", "2147483648", "9" * 5000, "\u0662"):
            with self.assertRaisesRegex(autocfg.InvalidArgument, "is not valid; it must be a whole number from 1 to 2147483647"):
                autocfg.Plan.parse(f"tp={value}")

    def test_the_words_of_plans_are_those_of_the_command_line(self):
        from autocfg import _plan_text
        with open(os.path.join(ROOT, "docs", "formats.md"), encoding="utf-8") as page:  # convert_test compares its rows with the table of options
            text = page.read()
        table = text[text.index("| text | JSON, CSV | meaning | values |"):].split("\n\n")[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
        self.assertEqual([(row[0], row[1]) for row in rows], [(word, option.field) for word, option in _plan_text.OPTIONS.items()])
        for word, field, _, values, *_ in rows:
            for value in values.replace("full:K", "full:3").replace("selective:NAMES", "selective:core_attn+norm").replace(", ...", "").split(", "):
                self.assertIsNotNone(getattr(autocfg.Plan.parse(f"{word}={value}"), field), word)

    @unittest.skipUnless(os.path.exists("/usr/bin/mypy"), "mypy is not installed")
    def test_the_types_are_strict(self):
        with tempfile.TemporaryDirectory() as directory:
            user, settings = os.path.join(directory, "user.py"), os.path.join(directory, "mypy.ini")
            with open(user, "w", encoding="utf-8") as file:
                file.write(USER)
            with open(settings, "w", encoding="utf-8") as file:
                file.write("[mypy]\nstrict = true\n[mypy-grpc.*,google.*]\nignore_missing_imports = true\n[mypy-autocfg.v1.*]\nignore_errors = true\n")
            package = os.path.dirname(autocfg.__file__)
            for what, environment in ((["--package", "autocfg"], {"MYPYPATH": os.path.dirname(package)}),
                                      (["--python-executable", python_of_venv, user], {})):
                checked = subprocess.run(["/usr/bin/mypy", "--config-file", settings, "--cache-dir", os.path.join(directory, "cache"), *what],
                                         cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            self.assertIn('Revealed type is "builtins.str"', checked.stdout)


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = Services()
        cls.services.__enter__()
        cls.addClassCleanup(cls.services.close)
        cls.address = "unix:" + os.path.join(cls.services.directory, "package.sock")
        cls.serve("server")
        cls.services.worker(cls.address, "one", "--devices", "cpu", "--slots", "2")

    @classmethod
    def serve(cls, name):
        cls.server = cls.services.start(name, ["autocfg-server", "--listen", cls.address, "--db", os.path.join(cls.services.directory, "server.db")])
        cls.server.said(r"listening on (\S+)")

    def setUp(self):
        self.coordinator = autocfg.Coordinator(self.address)
        self.addCleanup(self.coordinator.close)

    def test_predict(self):
        fast = autocfg.predict(self.coordinator, question())
        self.assertTrue(fast.feasible, fast.reason)
        self.assertLess(fast.step_time_low_s, fast.step_time_s)
        self.assertGreater(fast.breakdown_s.compute, 0)
        memory = fast.memory_bytes
        self.assertEqual(memory.allocated, memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.workspace +
                         memory.communication)
        self.assertEqual(memory.reserved, memory.allocated + memory.allocator_reserve)
        self.assertEqual(memory.total, memory.reserved + memory.device_overhead)
        self.assertEqual((memory.total_low, memory.total_high), (memory.total, memory.total))
        large = autocfg.predict(self.coordinator, question(model=autocfg.Model(layers=96, hidden=12288, heads=96, vocab=51200)))
        self.assertFalse(large.feasible)
        self.assertTrue(large.reason)
        with self.assertRaisesRegex(autocfg.InvalidArgument, "tp"):
            autocfg.predict(self.coordinator, question("tp=3"))

    def test_predictions_come_in_order_and_wrong_ones_are_left_to_their_answer(self):
        asked = (dataclasses.replace(question("tp=3" if number == 300 else "tp=2,dp=4"), id=str(number)) for number in range(600))
        answers = list(self.coordinator.predict_all(asked))
        self.assertEqual([answer.id for answer in answers], [str(number) for number in range(600)])
        self.assertEqual([answer.id for answer in answers if answer.error], ["300"])
        self.assertEqual([answer.id for answer in answers if answer.prediction is None], ["300"])

    def test_a_search_from_the_specification_to_the_export(self):
        search = autocfg.search(self.coordinator, small(), request_id="whole")
        events = list(search)
        self.assertEqual(events[-1].study.state, autocfg.StudyState.DONE)
        self.assertEqual(events[-1].study.spec.model.layers, 2)
        self.assertTrue(any(event.trial for event in events))
        answer = search.result()
        self.assertEqual(answer.provenance, "measured")
        self.assertGreater(answer.best.measured.median_step_time_s, 0)
        self.assertIn(answer.best.plan_text, [trial.plan_text for trial in self.coordinator.trials(search.name)])
        self.assertIn(search.name, [study.name for study in self.coordinator.studies()])
        self.assertEqual(autocfg.search(self.coordinator, small(), request_id="whole").name, search.name)
        with self.assertRaises(autocfg.AlreadyExists):
            autocfg.search(self.coordinator, small(max_trials=3), request_id="whole")
        self.assertIn('"plan"', autocfg.export(self.coordinator, search, "autocfg"))
        log = self.coordinator.log(search.name + "/trials/1")
        self.assertEqual((log.trial, log.attempt, log.text), (search.name + "/trials/1", 1, ""))
        self.assertIn("</html>", self.coordinator.report(search.name))
        with self.assertRaisesRegex(autocfg.InvalidArgument, "megatron"):
            autocfg.export(self.coordinator, search.name, "word")
        # All events again, and the rest of them.
        replay = list(autocfg.watch(self.coordinator, search.name))
        self.assertEqual(replay[-1].cursor, events[-1].cursor)
        rest = list(autocfg.watch(self.coordinator, search.name, cursor=replay[-2].cursor))
        self.assertLess(len(rest), len(replay))

    def test_watching_survives_a_restart(self):
        search = self.coordinator.search(small(max_trials=3))
        events = iter(search)
        first = next(events)
        self.assertEqual(self.server.stop(), 0, self.server.text())
        timer = threading.Timer(1, self.serve, ["server_again"])
        timer.start()
        rest = list(events)
        timer.join()
        self.assertEqual(rest[-1].study.state, autocfg.StudyState.DONE)
        cursors = [first.cursor] + [event.cursor for event in rest]
        self.assertEqual(cursors, sorted(cursors))
        self.assertIsNotNone(search.result().best)

    def test_a_cancelled_search_has_no_result(self):
        search = self.coordinator.search(small(workload=autocfg.Workload(global_batch=16, seq_len=32)))
        self.assertEqual(search.cancel().state, autocfg.StudyState.CANCELLED)
        with self.assertRaisesRegex(autocfg.SearchFailed, "^" + search.name + " ended as CANCELLED: "):
            search.result()
        with self.assertRaises(autocfg.FailedPrecondition):
            self.coordinator.export(search.name, "megatron")

    def test_errors_are_the_messages_of_the_server(self):
        for call in (lambda: self.coordinator.study("studies/99"), lambda: list(self.coordinator.watch("studies/99")),
                     lambda: self.coordinator.export("studies/99", "megatron")):
            with self.assertRaisesRegex(autocfg.NotFound, "studies/99") as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))
        with self.assertRaisesRegex(autocfg.InvalidArgument, "study: 1 is no study; give its name"):
            autocfg.export(self.coordinator, 1, "megatron")
        with self.assertRaisesRegex(autocfg.NotFound, "studies/99"):
            self.coordinator.log("studies/99/trials/1")
        with self.assertRaisesRegex(autocfg.InvalidArgument, "spec.device: 'gpu' is no device of a local cluster; give cpu or cuda"):
            autocfg.search(self.coordinator, small(device="gpu"))
        with self.assertRaisesRegex(autocfg.InvalidArgument, "cluster: local is for searches"):
            autocfg.predict(self.coordinator, autocfg.Question(model=autocfg.Model(layers=2, hidden=64, heads=4, vocab=64),
                                                               cluster=autocfg.Cluster(local=True), plan=autocfg.Plan(),
                                                               workload=autocfg.Workload(global_batch=8, seq_len=32)))
        with self.assertRaisesRegex(autocfg.InvalidArgument, "heads"):
            autocfg.search(self.coordinator, small(model=autocfg.Model(layers=1, hidden=64, heads=3, vocab=64)))
        self.assertTrue(issubclass(autocfg.NotFound, autocfg.AutocfgError))

    def test_a_watch_that_is_left_ends_its_stream(self):
        search = self.coordinator.search(small(max_trials=1))
        for _ in range(200):  # more than the server's limit of streams
            next(itertools.islice(self.coordinator.watch(search.name), 1))
        search.result()


class Addresses(unittest.TestCase):
    def test_plain_text_stays_on_the_machine_unless_told_otherwise(self):
        for address in ("head:5000", "10.0.0.1:5000", "[2001:db8::1]:5000"):
            with self.assertRaisesRegex(autocfg.InvalidArgument, "not encrypted"):
                autocfg.Coordinator(address)
            autocfg.Coordinator(address, insecure=True).close()
        for address in ("unix:/tmp/a", "localhost:5000", "127.0.0.1:1", "[::1]:5000"):
            autocfg.Coordinator(address).close()
        for address in ("head", "head:", ":5000", "head:five"):
            with self.assertRaisesRegex(autocfg.InvalidArgument, "give unix:PATH, HOST:PORT"):
                autocfg.Coordinator(address, insecure=True)

    def test_a_port_is_one(self):
        for address in ("localhost:99999", "localhost:65536", "127.0.0.1:0", "[::1]:70000"):
            with self.assertRaisesRegex(autocfg.InvalidArgument, "is no port; give one from 1 to 65535$"):
                autocfg.Coordinator(address)

    def test_certificates_are_read_at_once(self):
        with tempfile.TemporaryDirectory() as directory:
            empty, text = os.path.join(directory, "empty.pem"), os.path.join(directory, "text.pem")
            for path, content in ((empty, ""), (text, "no certificate\n")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            for path, said in ((empty, "holds no certificate in PEM form"), (text, "holds no certificate in PEM form"),
                               (directory, "cannot be read \\(Is a directory\\)"),
                               (os.path.join(directory, "none.pem"), "cannot be read \\(No such file or directory\\)")):
                with self.assertRaisesRegex(autocfg.InvalidArgument, f"^tls_ca: {path}: {said}; name a file"):
                    autocfg.Coordinator("localhost:5000", tls_ca=path)
            authority = os.path.join(directory, "ca.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-keyout",
                            os.path.join(directory, "key.pem"), "-out", authority], check=True, capture_output=True)
            autocfg.Coordinator("localhost:5000", tls_ca=authority).close()
            with self.assertRaisesRegex(autocfg.InvalidArgument, "^tls_cert, tls_key: .*text.pem, .*text.pem: hold no certificate"):
                autocfg.Coordinator("localhost:5000", tls_ca=authority, tls_cert=text, tls_key=text)
            autocfg.Coordinator("localhost:5000", tls_ca=authority, tls_cert=authority, tls_key=os.path.join(directory, "key.pem")).close()

    def test_a_closed_connection_is_not_used(self):
        coordinator = autocfg.Coordinator("unix:/nowhere/there.sock", patience_s=0.1)
        coordinator.close()
        coordinator.close()
        for call in (lambda: coordinator.study("studies/1"), lambda: list(coordinator.watch("studies/1")), lambda: list(coordinator.studies()),
                     lambda: coordinator.predict(question())):
            with self.assertRaisesRegex(autocfg.FailedPrecondition, "^unix:/nowhere/there.sock: this connection was closed; make another"):
                call()

    def test_a_coordinator_that_is_not_there_is_unavailable(self):
        began = time.monotonic()
        with autocfg.Coordinator("unix:/nowhere/there.sock", patience_s=0.5) as coordinator:
            for call in (lambda: coordinator.study("studies/1"), lambda: list(coordinator.watch("studies/1")),
                         lambda: coordinator.predict(question())):
                with self.assertRaisesRegex(autocfg.Unavailable, "^unix:/nowhere/there.sock: no coordinator answers there .*$"):
                    call()
        self.assertLess(time.monotonic() - began, 60)

    def test_a_channel_of_ones_own_stays_open(self):
        channel = grpc.insecure_channel("unix:/nowhere/there.sock")
        with autocfg.Coordinator("head:5000", channel=channel, patience_s=0.1) as coordinator:
            with self.assertRaisesRegex(autocfg.Unavailable, "^head:5000: "):
                coordinator.study("studies/1")
        with self.assertRaises(grpc.RpcError):  # a closed one raises ValueError
            channel.unary_unary("/any/Call")(b"")
        channel.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
