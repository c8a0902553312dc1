"""A coordinator with certificates and tokens, as its administrator, its workers and its users run it: autocfg-server, autocfg-worker,
autocfg and the Python package."""

import json
import os
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request

import installed_package
from services import BIN, Services, wait_for

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def setUpModule():
    global autocfg
    autocfg = installed_package.imported(installed_package.install(unittest.addModuleCleanup), unittest.addModuleCleanup)


class Secured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = Services()
        cls.services.__enter__()
        cls.addClassCleanup(cls.services.close)
        cls.here = cls.services.directory
        cls.openssl("req", "-x509", *KEY, "-days", "2", "-subj", "/CN=tests", "-keyout", cls.file("ca.key"), "-out", cls.file("ca.pem"))
        cls.issue("server", "DNS:localhost,IP:127.0.0.1")
        cls.socket = "unix:" + cls.file("s")
        cls.server = cls.services.start("server", [
            "autocfg-server", "--listen", "localhost:0", "--listen", cls.socket, "--db", cls.file("server.db"), "--tls-cert", cls.file("server.pem"),
            "--tls-key", cls.file("server.key"), "--tokens", "--audit-log", cls.file("audit.jsonl"), "--http", "localhost:0"])
        cls.address = cls.server.said(r"listening on (localhost:\d+)").group(1)
        cls.pages = cls.server.said(r"pages at (https://localhost:\d+)").group(1)
        cls.tokens = {}
        for name, role in (("alice", "submit"), ("bob", "read"), ("nodes", "worker"), ("root", "admin")):
            cls.tokens[name] = cls.make(name, role)
        cls.services.start("worker", ["autocfg-worker", "--coordinator", cls.address, "--tls-ca", cls.file("ca.pem"), "--token-file",
                                      cls.tokens["nodes"], "--name", "one", "--slots", "2", "--devices", "cpu"]).said("registered with")

    @classmethod
    def file(cls, name):
        return os.path.join(cls.here, name)

    @classmethod
    def openssl(cls, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    @classmethod
    def issue(cls, name, hosts):
        cls.openssl("req", *KEY, "-subj", "/CN=" + name, "-keyout", cls.file(name + ".key"), "-out", cls.file(name + ".csr"))
        with open(cls.file("hosts"), "w", encoding="utf-8") as extension:
            extension.write("subjectAltName=" + hosts)
        cls.openssl("x509", "-req", "-in", cls.file(name + ".csr"), "-CA", cls.file("ca.pem"), "-CAkey", cls.file("ca.key"), "-CAcreateserial",
                    "-days", "1", "-extfile", cls.file("hosts"), "-out", cls.file(name + ".pem"))

    @classmethod
    def run_autocfg(cls, *words, expect=0):
        ended = subprocess.run([os.path.join(BIN, "autocfg"), *words], capture_output=True, text=True, timeout=120, check=False)
        if ended.returncode != expect:
            raise AssertionError(f"{words}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended

    @classmethod
    def make(cls, name, role):
        """Makes a token. Returns the path of its file."""
        made = cls.run_autocfg("token", "create", name, "--role", role, "--coordinator", cls.socket)
        with open(cls.file(name + ".token"), "w", encoding="utf-8") as file:
            file.write(made.stdout)
        return cls.file(name + ".token")

    def as_user(self, name, verb, *words, expect=0):
        return self.run_autocfg(verb, *words, "--coordinator", self.address, "--tls-ca", self.file("ca.pem"), "--token-file", self.tokens[name],
                                expect=expect)

    def client(self, name):
        with open(self.tokens[name], encoding="utf-8") as file:
            coordinator = autocfg.Coordinator(self.address, tls_ca=self.file("ca.pem"), token=file.read().strip(), patience_s=5)
        self.addCleanup(coordinator.close)
        return coordinator

    def test_a_search_over_encrypted_calls_belongs_to_its_user(self):
        spec = autocfg.SearchSpec(model=autocfg.Model(name="small", layers=2, hidden=64, heads=4, vocab=256), cluster=autocfg.Cluster(local=True),
                                  workload=autocfg.Workload(global_batch=8, seq_len=32),
                                  space=[autocfg.SpaceAxis(name="recompute", values=["none"])], max_trials=2)
        with self.assertRaises(autocfg.PermissionDenied):
            autocfg.search(self.client("bob"), spec)
        search = autocfg.search(self.client("alice"), spec)
        self.assertEqual(search.result().provenance, "measured")
        self.assertEqual(self.client("bob").study(search.name).owner, "alice")
        with self.assertRaisesRegex(autocfg.PermissionDenied, "belongs to alice"):
            self.client_of_new_submitter().cancel(search.name)
        with open(self.file("audit.jsonl"), encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        created = [line for line in lines if line["method"].endswith("/CreateStudy") and line["status"] == "OK"]
        self.assertEqual([(line["principal"], line["subject"]) for line in created], [("alice", search.name)])
        self.assertTrue([line for line in lines if line["method"].endswith("/RegisterWorker") and line["token"] == "tokens/nodes"])

    def client_of_new_submitter(self):
        self.tokens["carol"] = self.make("carol", "submit")
        return self.client("carol")

    def test_the_command_line_says_what_is_missing(self):
        plain = self.run_autocfg("studies", "--coordinator", self.address, expect=3)
        self.assertIn("if it encrypts calls, give --tls-ca", plain.stderr)
        bare = self.run_autocfg("studies", "--coordinator", self.address, "--tls-ca", self.file("ca.pem"), expect=2)
        self.assertIn("the call has no token; give --token-file", bare.stderr)
        self.assertIn("may not call it", self.as_user("nodes", "studies", expect=2).stderr)
        self.assertIn("use one with the role admin", self.as_user("alice", "workers", "--drain", "nobody", expect=2).stderr)
        self.assertIn("is not registered", self.as_user("root", "workers", "--drain", "nobody", expect=2).stderr)
        self.assertIn('"workers/one"', self.as_user("bob", "workers", "--json").stdout)
        with self.assertRaises(autocfg.Unavailable):
            list(autocfg.Coordinator(self.address, patience_s=1).studies())

    def test_deleted_tokens_fail_at_once(self):
        self.tokens["guest"] = self.make("guest", "read")
        self.as_user("guest", "studies")
        self.assertIn("guest", self.as_user("root", "token", "list").stdout)
        self.as_user("root", "token", "delete", "guest")
        self.assertIn("unknown, deleted or expired", self.as_user("guest", "studies", expect=2).stderr)
        self.assertIn("there is no tokens/guest", self.as_user("root", "token", "delete", "guest", expect=2).stderr)

    def test_a_worker_takes_the_token_that_replaces_its_own(self):
        file = self.make("night", "worker")
        worker = self.services.start("night", ["autocfg-worker", "--coordinator", self.address, "--tls-ca", self.file("ca.pem"), "--token-file", file,
                                               "--name", "night", "--slots", "1", "--devices", "cpu"])
        worker.said("registered with")
        self.as_user("root", "token", "delete", "night")
        worker.said("the coordinator refuses this worker's token of " + file)
        self.make("night", "worker")
        worker.said("the coordinator answers again")
        self.as_user("root", "workers", "--drain", "night")

    def page(self, path, token=None):
        """Returns status and text of a page, whose server must show a certificate of the tests' authority."""
        request = urllib.request.Request(self.pages + path)
        if token is not None:
            with open(self.tokens[token], encoding="utf-8") as file:
                request.add_header("Authorization", "Bearer " + file.read().strip())
        try:
            with urllib.request.urlopen(request, timeout=20, context=ssl.create_default_context(cafile=self.file("ca.pem"))) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_pages_are_encrypted_and_ask_for_a_token(self):
        self.assertEqual(self.page("/studies.json")[0], 401)
        status, text = self.page("/studies.json", "bob")
        self.assertEqual(status, 200)
        self.assertIn("studies", json.loads(text))
        with self.assertRaises(OSError):
            urllib.request.urlopen("http" + self.pages[len("https"):] + "/studies.json", timeout=20)

    def test_pages_for_other_machines_need_tokens(self):
        for words, expected in ((["--tls-cert", self.file("server.pem"), "--tls-key", self.file("server.key")], "give --tokens, or --insecure"),
                                (["--tokens"], "it can be reached from other machines")):
            refused = self.services.start("refused", ["autocfg-server", "--listen", "unix:" + self.file("t"), "--db", self.file("other.db"), "--http",
                                                      "0.0.0.0:0", *words])
            self.assertEqual(refused.process.wait(30), 2)
            self.assertIn("--http: address 0.0.0.0:0: ", refused.text())
            self.assertIn(expected, refused.text())

    def test_renewed_certificates_are_taken(self):
        self.issue("server", "DNS:localhost,IP:127.0.0.1,DNS:renewed")
        with open(self.file("server.pem"), encoding="utf-8") as file:
            renewed = file.read()

        def shown(address, protocol):
            return subprocess.run(["openssl", "s_client", "-connect", address, "-CAfile", self.file("ca.pem"), "-alpn", protocol],
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False).stdout
        wait_for(lambda: renewed.strip().encode() in shown(self.address, "h2"), "the new certificate")
        wait_for(lambda: renewed.strip().encode() in shown(self.pages[len("https://"):], "http/1.1"), "the new certificate of the pages")
        self.as_user("bob", "studies")
        self.assertEqual(self.page("/", "bob")[0], 200)
        with open(self.file("server.key"), "w", encoding="utf-8") as file:
            file.write("nonsense")
        self.server.said("the certificate of the (pages|calls) cannot be used any more, and clients may refuse it: --tls-key: ")
        self.assertEqual(self.page("/", "bob")[0], 200)
        self.issue("server", "DNS:localhost,IP:127.0.0.1")
        with open(self.file("server.pem"), encoding="utf-8") as file:
            again = file.read()
        wait_for(lambda: again.strip().encode() in shown(self.address, "h2"), "the next certificate")


if __name__ == "__main__":
    unittest.main()
