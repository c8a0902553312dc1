"""Tests the packages that cpack makes and the bundle of a worker: what is in them, and that their programs run where nothing else is
installed. AUTOCFG_BUILD_DIR: the build. AUTOCFG_LINTIAN: set to have lintian check the packages, which takes a minute."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["AUTOCFG_BUILD_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 300
TRAIN = ["train", "--model", "gpt2-tiny", "--plan", "dp=2", "--global-batch", "2", "--steps", "1", "--device", "cpu", "--json"]
C_LIBRARY = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so")


def run(*command, **options):
    options = {"capture_output": True, "text": True, "timeout": LIMIT_S, "check": False, **options}
    return subprocess.run([str(word) for word in command], **options)


def can_mount():
    return os.geteuid() == 0 and shutil.which("unshare") is not None and run("unshare", "-m", "true").returncode == 0


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="autocfg_packages_")
        self.addCleanup(scratch.cleanup)
        self.home = pathlib.Path(scratch.name)

    def good(self, *command, **options):
        done = run(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def pack(self, generator, *options):
        self.good("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.home, "-G", generator, *options)

    def one(self, pattern):
        (found,) = self.home.glob(pattern)
        return found


@unittest.skipUnless(shutil.which("cpack") and shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"), "needs cpack and dpkg-dev")
class DebianPackages(Scratch):
    def test_what_is_in_them_and_that_they_install(self):
        self.pack("DEB", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")  # quicker than xz
        self.main, self.dev = self.one("autocfg_*.deb"), self.one("libautocfg-client-dev_*.deb")
        with self.subTest("what is in them"):
            self.check_content()
        with self.subTest("installed and removed"):
            self.check_installing()

    def field(self, package, name):
        return self.good("dpkg-deb", "-f", package, name).strip()

    def check_content(self):
        said = self.good(BUILD / "bin" / "autocfg", "version")
        version = self.field(self.main, "Version")
        self.assertTrue(version.startswith(re.search(r"autocfg (\S+)", said).group(1)), (version, said))
        self.assertEqual(self.field(self.dev, "Version"), version)
        needed = self.field(self.main, "Depends")
        for package in ("libc6 (>=", "libgrpc++", "libucx0", "libsystemd0", "adduser"):
            self.assertIn(package, needed)
        listed = self.good("dpkg-deb", "-c", self.main)
        for path in ("usr/bin/autocfg", "usr/bin/autocfg-server", "usr/bin/autocfg-worker", "usr/bin/autocfg-supervisor", "usr/bin/autocfg-trainer",
                     "usr/lib/systemd/system/autocfg-server.service", "usr/lib/systemd/system/autocfg-worker.service",
                     "etc/autocfg/worker.env", "usr/share/man/man1/autocfg.1.gz", "usr/share/doc/autocfg/copyright"):
            self.assertRegex(listed, rf"\./{re.escape(path)}\n")
        self.assertIn("usr/lib/cmake/autocfg/autocfgConfig.cmake", self.good("dpkg-deb", "-c", self.dev))
        control = self.home / "control"
        self.good("dpkg-deb", "-e", self.main, control)
        self.assertEqual((control / "conffiles").read_text(encoding="utf-8"), "/etc/autocfg/worker.env\n")
        self.good("dpkg-deb", "-x", self.main, self.home / "root")
        for unit in (self.home / "root" / "usr/lib/systemd/system").iterdir():
            text = unit.read_text(encoding="utf-8")
            self.assertRegex(text, r"\nExecStart=/usr/bin/autocfg-")
            self.assertNotIn("/usr/local", text)
        cuda = list(self.home.glob("autocfg-cuda_*.deb"))
        self.assertEqual(len(cuda), int((BUILD / "bin" / "libautocfg_cuda.so").exists()))
        for package in cuda:
            self.assertIn(f"autocfg (= {version})", self.field(package, "Depends"))
        if os.environ.get("AUTOCFG_LINTIAN"):
            # The address is a packager's to give. The engine's run path is where NVIDIA puts CUDA.
            found = run("lintian", "--allow-root", "--fail-on", "error", "--suppress-tags", "bogus-mail-host,custom-library-search-path",
                        *self.home.glob("*.deb"))
            self.assertEqual(found.returncode, 0, found.stdout + found.stderr)

    def check_installing(self):
        if not can_mount():
            self.skipTest("needs root")
        # The system as it is, with a layer over it that takes the changes.
        script = self.home / "script"
        script.write_text(f"""set -eu
mkdir {self.home}/layer
mount -t tmpfs layer {self.home}/layer
cd {self.home}/layer
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root || exit 77
mount --bind {self.home} root/mnt
mount -t proc proc root/proc
mount --rbind /dev root/dev
export DEBIAN_FRONTEND=noninteractive
inside() {{ chroot root "$@"; }}
inside dpkg -i --force-depends /mnt/{self.main.name} 2>&1
inside id autocfg
inside /usr/bin/autocfg version
inside /usr/bin/autocfg {' '.join(TRAIN)}
inside sh -c 'test "$(stat -c %a /etc/autocfg/worker.env)" = 644'
inside dpkg -i --force-depends /mnt/{self.main.name} >/dev/null 2>&1  # again: an upgrade
inside dpkg -r autocfg 2>&1
inside sh -c 'test ! -e /usr/bin/autocfg && test -e /etc/autocfg/worker.env'
inside dpkg --purge autocfg 2>&1
inside sh -c 'test ! -e /etc/autocfg/worker.env'
echo removed
""", encoding="utf-8")
        done = run("unshare", "-m", "bash", script)
        if done.returncode == 77:
            self.skipTest("no overlay file system here")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\nuid=\d+\(autocfg\)")
        self.assertRegex(done.stdout, r"\nautocfg \d+\.\d+\.\d+ ")
        self.assertIn('"losses"', done.stdout)
        self.assertTrue(done.stdout.endswith("removed\n"), done.stdout)


@unittest.skipUnless(shutil.which("cpack"), "needs cpack")
class Archive(Scratch):
    def test_it_runs_from_any_directory(self):
        self.pack("TGZ", "-D", "CPACK_STRIP_FILES=OFF")  # quicker
        self.good("tar", "-C", self.home, "-xzf", self.one("autocfg-*.tar.gz"))
        (top,) = [path for path in self.home.glob("autocfg-*") if path.is_dir()]
        self.assertEqual(sorted(path.name for path in top.iterdir()), ["bin", "include", "lib"])
        moved = self.home / "moved"
        top.rename(moved)
        self.assertEqual(len(json.loads(self.good(moved / "bin" / "autocfg", *TRAIN))["losses"]), 1)


class Bundle(Scratch):
    script = SOURCE / "deploy" / "worker_bundle.sh"

    def refused(self, status, words, *arguments, **options):
        done = run(self.script, *arguments, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(words, done.stderr)

    def test_bad_input_is_named(self):
        self.refused(2, "usage: deploy/worker_bundle.sh")
        self.refused(2, "usage: deploy/worker_bundle.sh", "--wrong", BUILD, self.home / "out")
        if not shutil.which("patchelf"):
            self.refused(1, "patchelf is missing", BUILD, self.home / "out")
            return
        self.refused(1, "autocfg-worker is missing; run ./dev build", self.home, self.home / "out")
        (self.home / "other").mkdir()
        (self.home / "other" / "file").touch()
        self.refused(1, "is not a bundle", BUILD, self.home / "other")

    @unittest.skipUnless(shutil.which("patchelf"), "needs patchelf")
    def test_a_worker_measures_where_nothing_else_is_installed(self):
        root = self.home / "root"
        bundle = root / "opt" / "bundle"
        bundle.parent.mkdir(parents=True)
        self.good(self.script, "--no-cuda-libraries", BUILD, bundle)
        # All that comes from outside of the bundle is the C library, and CUDA's libraries of the engine.
        needed = set()
        for file in [path for path in bundle.rglob("*") if path.is_file() and path.suffix != ".gz"]:
            for line in self.good("ldd", file).splitlines():
                name, _, rest = line.strip().partition(" => ")
                path = rest.split(" (")[0] or name.split(" (")[0]
                if "bundle" in path or name == "statically linked":
                    continue
                name = os.path.basename(name.split(" (")[0])
                if C_LIBRARY.match(name):
                    needed.update([path] if path.startswith("/") else [])
                elif file.parent.name == "ucx":  # a transport that the node's driver may not have
                    self.assertRegex(name, r"^lib(uct_ib|ibverbs|rdmacm|mlx5|nl-)")
                else:
                    self.assertRegex(name, r"^lib(cudart|cublas|cublasLt)\.so", f"{file} needs {line}")
        if not can_mount():
            self.skipTest("the worker needs root to run in a directory of its own")
        for path in needed:
            copy = root / path.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        for name in ("proc", "sys", "dev", "tmp", "run"):
            (root / name).mkdir()
        server = self.start("autocfg-server", [BUILD / "bin" / "autocfg-server", "--listen", f"unix:{root}/run/server.sock", "--db",
                                               self.home / "server.db"], "listening on")
        enter = (f"mount -t proc proc {root}/proc && mount --rbind /sys {root}/sys && mount --rbind /dev {root}/dev && exec chroot {root} "
                 "/opt/bundle/bin/autocfg-worker --coordinator unix:/run/server.sock --devices cpu --slots 2")
        self.start("worker", ["unshare", "-m", "bash", "-c", enter], "registered with")
        answer = self.good(BUILD / "bin" / "autocfg", "search", "--coordinator", f"unix:{root}/run/server.sock", "--model", "gpt2-tiny", "--global-batch",
                           "4", "--seq-len", "32", "--max-trials", "1", "--space", "recompute=none", "--json")
        self.assertEqual(json.loads(answer)["best"]["provenance"], "measured", answer)
        self.assertIsNone(server.poll())

    def start(self, name, command, said):
        log = self.home / (name + ".log")
        with open(log, "wb") as file:
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file, stderr=file)

        def stop():
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0, log.read_text(encoding="utf-8"))
        self.addCleanup(stop)
        end = time.monotonic() + 60
        while said not in log.read_text(encoding="utf-8"):
            self.assertIsNone(process.poll(), log.read_text(encoding="utf-8"))
            self.assertLess(time.monotonic(), end, log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        return process


class Container(unittest.TestCase):
    def test_the_file_names_what_exists(self):
        text = (SOURCE / "deploy/container/Containerfile").read_text(encoding="utf-8")
        lines = re.sub(r"\\\n", " ", text).splitlines()
        steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
        self.assertLessEqual({word for word, _ in steps}, {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "CMD"})
        for word, rest in steps:
            if word == "COPY" and not rest.startswith("--from"):
                self.assertTrue((SOURCE / rest.split()[0]).exists(), rest)
            if word == "RUN":
                self.assertEqual(run("sh", "-n", "-c", rest).returncode, 0, rest)
                for script in re.findall(r"deploy/\S+\.sh", rest):
                    self.assertTrue((SOURCE / script).exists(), rest)
            if word == "CMD":
                program, *options = json.loads(rest)
                known = run(BUILD / "bin" / program, "--help").stdout
                for option in options:
                    if option.startswith("--"):
                        self.assertIn(option, known)


if __name__ == "__main__":
    unittest.main(verbosity=2)
