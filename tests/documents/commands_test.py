"""Runs the commands of README.md and docs/*.md as they are printed.

A command is a line of a shell block: an indented block, or a fenced one that names a shell. In a
block whose first line starts with "$ ", only such lines are commands; the others are what the
command above them prints. Every command runs in one scratch directory, in the order of the
documents, README first. What cannot run as printed has a line in QUICKER, SERVICES or LEFT_OUT,
with the reason. A command that fails, or a line in these tables that no document has, fails the
test.

Needs AUTOCFG_BUILD_DIR.
"""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHELLS = {"sh", "bash", "shell", "console"}
PROGRAMS = ("$ ", "./", "build/bin/", "autocfg")  # in a fence of no language
LIMIT_S = 120  # of one command
START_LIMIT_S = 60  # of a service

MINUTE = "as printed, it takes a minute"
WHOLE_RUN = "as printed, it is a whole training run"
MY_SEARCH = ("build/bin/autocfg search --model my-model.json --cluster local --global-batch 64 "
             "--seq-len 256 --output best.json")
TRAIN = "build/bin/autocfg train --input best.json"
PACKAGES = ("deploy/runtime_packages.sh "
            "build/bin/autocfg{,-server,-worker,-supervisor,-trainer}")
TINY_SEARCH = "autocfg search --model gpt2-tiny --cluster local --global-batch 48"
ONE_MACHINE = "the nodes are this machine, and no GPU has to hold the model"
THERE = " --model gpt2-tiny --global-batch 48 --cluster local --max-trials 1 --time-budget 20s"

# The command as printed, what runs in its place, and why. {address} is a free port of this machine.
QUICKER = {
    "./dev search": (
        "build/bin/" + TINY_SEARCH + " --time-budget 20s",
        "./dev builds first, which tests/deploy/dev_test.py tests; " + MINUTE),
    TINY_SEARCH: (TINY_SEARCH + " --time-budget 16s", MINUTE),
    MY_SEARCH: (MY_SEARCH + " --time-budget 12s", MINUTE),
    TRAIN + " --steps 1000 --data corpus.u16 --save weights.safetensors": (
        TRAIN + " --steps 3 --data corpus.u16 --save weights.safetensors", WHOLE_RUN),
    TRAIN + " --steps 1000 --checkpoint ckpt --save-every 100": (
        TRAIN + " --steps 4 --checkpoint ckpt --save-every 2", WHOLE_RUN),
    TRAIN + " --steps 1000 --checkpoint ckpt --save-every 100 --resume ckpt --plan dp=2,mbs=4": (
        TRAIN + " --steps 6 --checkpoint ckpt --save-every 2 --resume ckpt --plan dp=2,mbs=4",
        WHOLE_RUN),
    "autocfg search --coordinator head:5000 --insecure --model llama3-8b --global-batch 64": (
        "autocfg search --coordinator {address} --insecure" + THERE, ONE_MACHINE),
    "autocfg search --coordinator head:5000 --insecure --model llama3-8b --global-batch 64 "
    "--seq-len 4096": (
        "autocfg search --coordinator {address} --insecure" + THERE, ONE_MACHINE),
    "apt-get install $(" + PACKAGES + ")": (PACKAGES, "installing needs root and a network"),
}

# Commands that run until the document ends.
SERVICES = {
    "autocfg-server --listen 0.0.0.0:5000 --insecure": (
        "autocfg-server --listen {address} --insecure --db guide.db", ONE_MACHINE),
    "autocfg-server --listen 0.0.0.0:5000 --insecure --db /var/lib/autocfg/autocfg.db": (
        "autocfg-server --listen {address} --insecure --db operations.db",
        ONE_MACHINE + "; the directory needs root"),
    "autocfg-worker --coordinator head:5000 --insecure": (
        "autocfg-worker --coordinator {address} --insecure", ONE_MACHINE),
}

PACKED = "the test packages_test packs and runs it"
NEEDS_GPU = "needs a GPU; the test gpu_rehearsal_test runs it on the emulator"
NEEDS_ENGINE = "needs a framework; tests/e2e/engine_search_test.cc searches with a script of its own"
AFTER_GPU = "takes the report of a GPU"
SECURED = "needs certificates; tests/api/security_test.py makes them, and runs the programs so"

IN_CLUSTER = "needs a cluster; the test kubernetes_test makes what the Secrets hold, and runs the pods with it"

LEFT_OUT = {
    "autocfg-server --listen 0.0.0.0:5000 --listen unix:server.sock --tls-cert head.pem --tls-key head_key.pem --tokens "
    "--audit-log audit.jsonl": SECURED,
    "autocfg token create alice --role submit --coordinator unix:server.sock --output alice.token": SECURED,
    "autocfg token create nodes --role worker --expires 90d --coordinator unix:server.sock --output nodes.token": SECURED,
    "autocfg token list --coordinator unix:server.sock": SECURED,
    "autocfg-worker --coordinator head:5000 --tls-ca ca.pem --token-file nodes.token": SECURED,
    "autocfg search --coordinator head:5000 --tls-ca ca.pem --token-file alice.token --model gpt2-tiny --global-batch 4": SECURED,
    "./dev test": "this test is a part of it",
    "./dev gpu": NEEDS_GPU,
    "python3 -m tarfile -e gpu_bundle.tar.xz && gpu_bundle/gpu_check": NEEDS_GPU,
    "gpu_bundle/gpu_check --output gpu.json --only correctness": NEEDS_GPU,
    "gpu_bundle/gpu_check --output gpu.json --resume --results .": NEEDS_GPU,
    "cp gpu_DEVICE.json bench/results/": AFTER_GPU,
    "git rev-parse --short=12 HEAD; grep '\"revision\"' bench/results/gpu_DEVICE.json": AFTER_GPU,
    "protoc -I proto --python_out=stubs --grpc_python_out=stubs "
    "--plugin=protoc-gen-grpc_python=\"$(command -v grpc_python_plugin)\" proto/autocfg/v1/*.proto":
        "runs in the root of the repository; tests/api/api_document_test.py runs it",
    "cmake --install build --prefix /usr/local": "needs root; the test install_test installs",
    "cpack --config build/CPackConfig.cmake -G DEB -B packages": PACKED,
    "cpack --config build/CPackConfig.cmake -G TGZ -B packages": PACKED,
    "deploy/worker_bundle.sh build worker_bundle": PACKED,
    "apt-get install ./packages/autocfg_*.deb": "needs root; packages_test installs it over a copy of the system",
    "kubectl apply -k deploy/kubernetes/base": "needs a cluster; the test kubernetes_test renders and checks it",
    "kubectl apply -k deploy/kubernetes/cpu": "needs a cluster; the test kubernetes_test runs its pods",
    "kubectl -n autocfg create secret tls autocfg-coordinator-tls --cert head.pem --key head_key.pem": IN_CLUSTER,
    "kubectl -n autocfg create secret generic autocfg-ca --from-file ca.crt=ca.pem": IN_CLUSTER,
    "kubectl -n autocfg exec autocfg-coordinator-0 -- autocfg token create nodes --role worker --coordinator "
    "unix:/tmp/server.sock > nodes.token": IN_CLUSTER,
    "kubectl -n autocfg create secret generic autocfg-worker-token --from-file token=nodes.token": IN_CLUSTER,
    "docker build -f deploy/container/Containerfile -t autocfg .": "needs a container runtime and a network",
    "./dev search --model gpt2-1.5b --global-batch 64 --time-budget 20m": "needs a GPU",
    "autocfg search --model llama3-8b --global-batch 64 --seq-len 4096 --engine megatron "
    "--engines /etc/autocfg/engines": NEEDS_ENGINE,
    "autocfg-worker --coordinator head:5000 --insecure --engines /etc/autocfg/engines": NEEDS_ENGINE,
    "autocfg search --coordinator head:5000 --insecure --model llama3-8b --global-batch 64 "
    "--seq-len 4096 --engine megatron": NEEDS_ENGINE,
    "sbatch --nodes 2 --gpus-per-node 8 deploy/slurm/autocfg.sbatch --model llama3-8b "
    "--global-batch 64 --seq-len 4096": "needs Slurm; the test slurm_slow_test runs a smaller job",
}

# What a shown line begins with, where another run may lack it.
DEPENDS_ON_THE_RUN = {
    "chance that a plan that was not measured is more than",  # unless the budget ends the race
}


def lines_of(document):
    with open(os.path.join(SOURCE, document), encoding="utf-8") as file:
        return file.read().split("\n")


def commands_of(lines):
    """Returns the commands as (line number, command without its comment, lines shown below it)."""
    commands = []
    fence, within, console, blank = None, False, False, True
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fence = line[3:].strip() if fence is None else None
            within, blank = False, False
            console = fence == "console"
            continue
        text = None
        if fence is not None:
            if fence in SHELLS or line.startswith(PROGRAMS) or console:
                console = console or line.startswith("$ ")
                text = line
        elif line.startswith("    ") and (within or blank):
            text = line[4:]
            if not within:
                console = text.startswith("$ ")
            within = True
        elif line.strip():
            within = False
        blank = not line.strip()
        if text is None or blank:
            continue
        if commands and commands[-1][1].endswith("\\"):  # the command goes on
            number_of, begun, shown = commands.pop()
            commands.append((number_of, begun[:-1].strip() + " " + text.strip(), shown))
        elif not console or text.startswith("$ "):
            command = re.split(r"\s+#\s", text.removeprefix("$ "))[0].strip()
            commands.append((number, command, []))
        elif commands:
            commands[-1][2].append(text)
    return commands


def label_of(shown):
    """Returns the words that a shown line begins with, before its figures; empty if it has none."""
    label = re.split(r"\d|…|:|\s{2,}|\(", shown.strip())[0]
    return label.strip(" ,;~$<+-")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def missing_labels(shown, printed):
    """Returns the labels of the shown lines that the printed text lacks. Line breaks do not count."""
    flat = " ".join(printed.split())
    labels = [label_of(line) for line in shown]
    return [label for label in labels
            if label and label not in flat and label not in DEPENDS_ON_THE_RUN]


def documents():
    pages = sorted(os.listdir(os.path.join(SOURCE, "docs")))
    # guide.md makes a best.json anew, which later pages read.
    return ["README.md"] + ["docs/" + page for page in pages if page.endswith(".md")]


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


class Extraction(unittest.TestCase):
    def test_indented_fenced_and_console_blocks(self):
        page = ["Text:", "", "    autocfg a   # why", "    autocfg b \\", "      --more", "", "- item", "    goes on", "",
                "    $ autocfg c", "    label  12", "", "    more: 3", "", "Text",
                "```sh", "autocfg d", "```",
                "```json", '{"a": 1}', "```", "```", "./dev e", "  drawing", "```"]
        self.assertEqual(
            [(command, shown) for _, command, shown in commands_of(page)],
            [("autocfg a", []), ("autocfg b --more", []), ("autocfg c", ["label  12", "more: 3"]),
             ("autocfg d", []), ("./dev e", [])])

    def test_labels_are_the_words_before_figures(self):
        self.assertEqual(label_of("  step time        118 ms +- 3.42 ms"), "step time")
        self.assertEqual(label_of("params: 0.933 M"), "params")
        self.assertEqual(label_of("  118 ms +- 1.89 ms"), "")
        self.assertEqual(missing_labels(["  step time  1 s", "lost: 3"], "step\n   time 2 s"), ["lost"])

    def test_every_entry_of_the_tables_is_in_a_document(self):
        printed = {command for page in documents() for _, command, _ in commands_of(lines_of(page))}
        for table in (QUICKER, SERVICES, LEFT_OUT):
            for command in table:
                self.assertIn(command, printed, "no document has this command any more")
        labels = {label_of(line) for page in documents() for _, _, shown in commands_of(lines_of(page))
                  for line in shown}
        self.assertLessEqual(DEPENDS_ON_THE_RUN, labels)


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="autocfg_docs_", dir="/tmp")
        cls.build = os.environ["AUTOCFG_BUILD_DIR"]
        os.symlink(cls.build, os.path.join(cls.scratch, "build"))
        os.symlink(os.path.join(SOURCE, "deploy"), os.path.join(cls.scratch, "deploy"))
        cls.environment = dict(
            os.environ, LC_ALL="C", XDG_STATE_HOME=os.path.join(cls.scratch, "state"),
            PATH=os.path.join(cls.build, "bin") + ":" + os.environ["PATH"],
            # This machine's GPUs are hidden, so that every machine runs the same.
            AUTOCFG_NVML_LIBRARY="libautocfg-no-nvml.so.1")
        cls.write_files()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch, ignore_errors=True)

    @classmethod
    def write_files(cls):
        """Writes the files that the documents' readers have."""
        def write(name, data):
            with open(os.path.join(cls.scratch, name), "wb") as file:
                file.write(data)
        write("my-model.json", json.dumps(
            {"layers": 2, "hidden": 32, "heads": 2, "vocab": 256, "max_seq_len": 256}).encode())
        write("corpus.u16", struct.pack("<4096H", *(i * 7 % 256 for i in range(4096))))
        rows = ["layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_s"]
        rows += ["24,2048,32,2048,%d,%d,%d,1,%d,%g" % (8 * dp, mbs, 8 // dp, dp, 2.2 * dp / mbs ** 0.1)
                 for dp in (1, 2, 4) for mbs in (1, 2)]
        write("steps.csv", "\n".join(rows).encode())
        request = re.search(r'^\{"id": 7, "model".*\}$', "\n".join(lines_of("docs/formats.md")), re.M)
        write("requests.jsonl", request.group(0).encode() + b"\n")

    def run_one(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.scratch, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)

    def check(self, command, shown):
        began = time.monotonic()
        ended = self.run_one(command)
        print("%6.1f s  %s" % (time.monotonic() - began, command), flush=True)
        self.assertEqual(ended.returncode, 0, ended.stderr + ended.stdout)
        self.assertEqual(missing_labels(shown, ended.stdout), [], ended.stdout)
        return ended.stdout

    def start(self, command, services):
        said = os.path.join(self.scratch, "said-%d" % len(services))
        with open(said, "w", encoding="utf-8") as log:
            process = subprocess.Popen(["bash", "-c", "exec " + command], cwd=self.scratch, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        services.append((command, process, said))
        end = time.monotonic() + START_LIMIT_S
        while not re.search("listening on|registered with", text_of(said)):
            self.assertIsNone(process.poll(), command + ": " + text_of(said))
            self.assertLess(time.monotonic(), end, command + ": " + text_of(said))
            time.sleep(0.05)

    def run_document(self, page, commands):
        address = free_address()
        services = []
        try:
            for number, command, shown in commands:
                with self.subTest(where="%s:%d" % (page, number), command=command):
                    if command in LEFT_OUT:
                        continue
                    if command in SERVICES:
                        self.start(SERVICES[command][0].format(address=address), services)
                        continue
                    if command in QUICKER:
                        command = QUICKER[command][0].replace("{address}", address)
                    printed = self.check(command, shown)
                    following = re.search(r"^next: ((?:.+\\\n)*.+)$", printed, re.M)
                    if following:  # the command that the answer proposes
                        self.check(following.group(1), [])
        finally:
            for command, process, said in reversed(services):
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(timeout=30), 0, command + "\n" + text_of(said))

    def test_every_command_runs_as_printed(self):
        count = 0
        for page in documents():
            commands = commands_of(lines_of(page))
            count += len(commands)
            self.run_document(page, commands)
        self.assertGreater(count, 25, "the pattern finds no commands")


if __name__ == "__main__":
    unittest.main()
