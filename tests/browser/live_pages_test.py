"""The pages of autocfg-server --http, in a headless Chromium."""
import http.client
import os
import subprocess
import sys
import time
import unittest

from chromium import Chromium
from report_page_test import BIN, COLOURS, DESKTOP, PHONE

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "api"))
from services import Services  # noqa: E402

PREDICTED = ["--model", "gpt2-124m", "--cluster", "h100-sxm:1x4", "--global-batch", "32", "--predict-only", "--save"]
MEASURED = ["--model", "gpt2-tiny", "--cluster", "h100-sxm:1x2", "--device", "paced", "--global-batch", "16", "--max-trials", "4"]


class LivePagesTest(unittest.TestCase):
    def setUp(self):
        self.services = Services()
        self.services.__enter__()
        self.addCleanup(self.services.close)
        self.server, self.address = self.services.server("--http", "127.0.0.1:0")
        self.site = self.server.said(r"pages at (http://\S+)").group(1)
        self.browser = Chromium()
        self.addCleanup(self.browser.close)

    def search(self, *words):
        return subprocess.Popen([os.path.join(BIN, "autocfg"), "search", *words, "--coordinator", self.address],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.services.directory})

    def await_true(self, expression, what, limit_s=90):
        until = time.monotonic() + limit_s
        while not self.browser.run(expression):
            self.assertLess(time.monotonic(), until, f"{what}: {self.browser.run('document.body.innerText')[:400]}")
            time.sleep(0.1)

    def test_the_list_leads_to_a_study(self):
        self.browser.window(*DESKTOP)
        self.browser.open(self.site + "/")
        self.assertIn("There is no study yet", self.browser.run("document.body.innerText"))
        self.assertEqual(self.search(*PREDICTED).wait(90), 0)
        self.await_true("document.querySelector('a[href=\"/studies/1\"]') !== null", "the new study is listed")
        self.assertIn("gpt2-124m on ", self.browser.run("document.body.innerText"))
        for size in (PHONE, DESKTOP):
            for dark in (False, True):
                self.browser.window(*size, dark=dark)
                self.browser.open(self.site + "/studies/1")
                for name in ("chart-plans", "chart-time", "chart-memory", "chart-rejected"):
                    colours, drawn = self.browser.run(COLOURS % f"'#{name}'")
                    self.assertGreater(colours, 4, name)
                    self.assertGreater(drawn, 0.005, name)
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), size[0])
        self.assertIn("Study 1: gpt2-124m", self.browser.run("document.title"))
        self.assertEqual(self.browser.problems, [])

    def test_a_page_follows_its_study(self):
        self.services.worker(self.address, "one", "--devices", "cpu", "--slots", "2")
        search = self.search(*MEASURED)
        self.addCleanup(search.kill)
        self.browser.window(*DESKTOP)
        self.browser.open(self.site + "/")
        self.await_true("document.querySelector('a[href=\"/studies/1\"]') !== null", "the study is listed")
        self.browser.open(self.site + "/studies/1")
        self.await_true("document.querySelector('header p').textContent.includes('The study is done')", "the page follows the study")
        self.assertEqual(search.wait(60), 0)
        self.assertTrue(self.browser.run("document.getElementById('chart-measured') !== null"))
        self.assertRegex(self.browser.run("document.getElementById('bill').textContent"), r"measured \d+")
        self.assertEqual(self.browser.problems, [])

    def test_it_is_read_only_and_answers_by_its_own_name(self):
        host, port = self.site.removeprefix("http://").rsplit(":", 1)

        def ask(method, path, **headers):
            connection = http.client.HTTPConnection(host, int(port), timeout=20)
            self.addCleanup(connection.close)
            connection.request(method, path, headers=headers)
            return connection.getresponse()
        self.assertEqual(ask("GET", "/").status, 200)
        self.assertEqual(ask("POST", "/").status, 405)
        self.assertEqual(ask("DELETE", "/studies/1").status, 405)
        self.assertEqual(ask("GET", "/studies/7").status, 404)
        self.assertEqual(ask("GET", "/", Host="evil.example").status, 403)
        self.assertIn("script-src 'self'", ask("GET", "/").headers["Content-Security-Policy"])
        self.assertEqual(self.server.stop(), 0)

    def test_other_machines_need_insecure(self):
        refused = self.services.start("open", ["autocfg-server", "--listen", "localhost:0", "--http", "0.0.0.0:0", "--db",
                                               os.path.join(self.services.directory, "open.db")])
        self.assertEqual(refused.process.wait(30), 2)
        self.assertRegex(refused.text(), r"autocfg-server: --http: .*--insecure")


if __name__ == "__main__":
    unittest.main()
