"""Tests the systemd units: that systemd accepts them, how far they are exposed, and that services run under a real systemd as the units
say, in namespaces of their own. AUTOCFG_BUILD_DIR: the build."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["AUTOCFG_BUILD_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
UNITS = {path.name: path for path in (SOURCE / "deploy/systemd").glob("*.service")}
LIMIT_S = 240
# Ten times the exposure that systemd-analyze may find (0: none, 100: everything).
EXPOSURE = {"autocfg-server.service": 16, "autocfg-worker.service": 38}
SYSTEMD = "/lib/systemd/systemd"
SEARCH = ("search --coordinator unix:/run/autocfg/server.sock --model gpt2-tiny --global-batch 4 --seq-len 32 --max-trials 1 "
          "--space recompute=none --json")


def run(*command, **options):
    options = {"capture_output": True, "text": True, "timeout": LIMIT_S, "check": False, **options}
    return subprocess.run([str(word) for word in command], **options)


def on_build(unit, directory):
    """The text of a unit whose programs are those in `directory`."""
    return UNITS[unit].read_text(encoding="utf-8").replace("/usr/local/bin/", f"{directory}/")


@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
class Units(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="autocfg_units_")
        self.addCleanup(scratch.cleanup)
        self.home = pathlib.Path(scratch.name)

    def written(self, unit, change=lambda text: text):
        path = self.home / unit
        path.write_text(change(on_build(unit, BUILD / "bin")), encoding="utf-8")
        return path

    def verified(self, *paths):
        return run("systemd-analyze", "verify", "--man=no", *paths)

    def test_systemd_accepts_them(self):
        done = self.verified(*[self.written(unit) for unit in UNITS])
        self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if "autocfg" in line]), (0, []), done.stderr)

    def test_a_wrong_line_is_found(self):
        for right, wrong, words in (("WatchdogSec=2min", "WatchdogSec=often", "Failed to parse"),
                                    ("NoNewPrivileges=yes", "NoNewPrivilege=yes", "'NoNewPrivilege'")):
            for unit in UNITS:
                done = self.verified(self.written(unit, lambda text, right=right, wrong=wrong: text.replace(right, wrong)))
                self.assertTrue(any(unit in line and words in line for line in done.stderr.splitlines()), done.stderr)
        done = self.verified(self.written("autocfg-server.service", lambda text: text.replace("autocfg-server --listen", "autocfg-srv --listen")))
        self.assertNotEqual(done.returncode, 0)

    def test_they_are_hardly_exposed(self):
        for unit in UNITS:
            def exposed(path, unit=unit):
                return run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE[unit]}", path)
            done = exposed(self.written(unit))
            if "offline" in done.stderr:
                self.skipTest("this systemd cannot judge units that it does not run")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertNotEqual(exposed(self.written(unit, lambda text: text.replace("NoNewPrivileges=yes", ""))).returncode, 0)

    def test_options_exist_and_ready_is_awaited(self):
        for unit in UNITS:
            text = UNITS[unit].read_text(encoding="utf-8")
            program, rest = re.search(r"^ExecStart=/usr/local/bin/(\S+) (.+)$", text, re.MULTILINE).groups()
            known = run(BUILD / "bin" / program, "--help").stdout
            for option in re.findall(r"(?<!\S)--[\w-]+", rest):
                self.assertIn(option, known)
            for line in ("Type=notify", "NotifyAccess=main", "WatchdogSec=2min", "Restart=on-failure"):
                self.assertRegex(text, rf"(?m)^{line}$")


class Libraries(unittest.TestCase):
    def test_only_services_load_what_talks_to_systemd(self):
        programs = [path for path in (BUILD / "bin").iterdir() if path.suffix != ".so"]
        self.assertEqual({path.name for path in programs if "libsystemd" in run("ldd", path).stdout}, {"autocfg-server", "autocfg-worker"})


def can_boot():
    return (os.geteuid() == 0 and os.path.exists(SYSTEMD) and shutil.which("unshare") is not None
            and run("unshare", "-mpfCinu", "true").returncode == 0)


@unittest.skipUnless(can_boot(), "needs root and systemd")
class Services(unittest.TestCase):
    # Runs beside systemd, which is process 1 of its namespaces. $root: systemd's root directory.
    CHECKS = """
inside() { chroot $root "$@"; }
trap 'inside journalctl --no-pager >&2' EXIT
as_service() { inside setpriv --reuid=autocfg --regid=autocfg --clear-groups env PATH=/opt/autocfg:/usr/bin:/bin HOME=/tmp "$@"; }
until inside systemctl is-system-running >/dev/null 2>&1 || [ "$(inside systemctl is-system-running)" = degraded ]; do sleep 0.1; done
inside id autocfg >/dev/null 2>&1 || inside useradd --system --home-dir /var/lib/autocfg autocfg
property() { inside systemctl show --value --property "$2" autocfg-"$1"; }
set -e
inside systemctl start autocfg-server
echo "server: $(property server ActiveState), $(property server StatusText)"
inside systemctl start autocfg-worker
echo "worker: $(property worker ActiveState), $(property worker StatusText)"
echo "answer: $(as_service autocfg %(search)s)"
# A server that hangs is ended and started again; its studies are still there.
pid=$(property server MainPID)
kill -STOP $pid
until [ "$(property server MainPID)" != $pid ] && [ "$(property server ActiveState)" = active ]; do sleep 0.1; done
echo "journal: $(inside journalctl --unit autocfg-server --output cat | grep --max-count 1 'Watchdog timeout')"
echo "studies: $(as_service autocfg studies --coordinator unix:/run/autocfg/server.sock --json | tr -d '\\n')"
inside systemctl stop autocfg-worker autocfg-server
for each in worker server; do echo "$each: $(property $each ActiveState), $(property $each Result)"; done
# A worker without a coordinator never becomes ready.
inside systemctl start autocfg-worker && echo 'ready without a coordinator' || echo "worker: $(property worker ActiveState)"
""" % {"search": SEARCH}

    def test_services_run_as_their_units_say(self):
        scratch = tempfile.TemporaryDirectory(prefix="autocfg_units_")
        self.addCleanup(scratch.cleanup)
        home = pathlib.Path(scratch.name)
        for unit in UNITS:
            (home / unit).write_text(on_build(unit, "/opt/autocfg"), encoding="utf-8")
        (home / "checks").write_text(self.CHECKS, encoding="utf-8")
        boot = home / "boot"
        boot.write_text(f"""set -eu
ip link set lo up
mkdir {home}/layer
mount -t tmpfs layer {home}/layer
cd {home}/layer
mkdir upper work root
export root=$PWD/root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root || {{ echo skip >{home}/done; exit; }}
mount -t proc proc $root/proc
mount --rbind /dev $root/dev
mount -t sysfs sysfs $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup || {{ echo skip >{home}/done; exit; }}
mount -t tmpfs run $root/run
mount -t tmpfs tmp $root/tmp
mkdir -p $root/opt/autocfg $root/etc/autocfg
mount --rbind {BUILD}/bin $root/opt/autocfg
rm -rf $root/etc/systemd/system/*
cp {home}/*.service $root/etc/systemd/system
for unit in {home}/*.service; do
  drop_in=$root/etc/systemd/system/${{unit##*/}}.d
  mkdir $drop_in
  # Limits that a test can wait for.
  printf '[Service]\\nTimeoutAbortSec=1s\\nRestartSec=0\\n' >$drop_in/short.conf
done
printf '[Service]\\nWatchdogSec=4s\\n' >$root/etc/systemd/system/autocfg-server.service.d/watchdog.conf
echo 'AUTOCFG_COORDINATOR=unix:/run/autocfg/server.sock
AUTOCFG_WORKER_ARGS=--devices cpu --slots 2 --wait 1s' >$root/etc/autocfg/worker.env
printf '[Unit]\\nDescription=nothing\\n' >$root/etc/systemd/system/nothing.target
(bash {home}/checks >{home}/said 2>{home}/errors; echo $? >{home}/status; mv {home}/status {home}/done) &
exec env -i container=docker PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot $root {SYSTEMD} --unit=nothing.target --log-target=journal
""", encoding="utf-8")
        with open(home / "log", "wb") as log:
            systemd = subprocess.Popen(["unshare", "-mpfCinu", "--kill-child", "bash", boot], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + LIMIT_S
        while not (home / "done").exists() and systemd.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        systemd.kill()  # and with it all processes of its namespace
        systemd.wait()
        said, errors = ((home / name).read_text(encoding="utf-8") if (home / name).exists() else "" for name in ("said", "errors"))
        everything = said + errors + (home / "log").read_text(encoding="utf-8", errors="replace")
        self.assertTrue((home / "done").exists(), everything)
        status = (home / "done").read_text(encoding="utf-8").strip()
        if status == "skip":
            self.skipTest("no overlay file system or no second version of control groups here")
        self.assertEqual(status, "0", everything)
        lines = said.splitlines()
        self.assertEqual(lines[0], "server: active, listening on unix:/run/autocfg/server.sock")
        self.assertRegex(lines[1], r"^worker: active, registered with unix:/run/autocfg/server.sock as workers/\S+: 2 slots on cpu$")
        answer = json.loads(said[said.index("answer: ") + 8:said.index("\njournal: ")])
        self.assertEqual(answer["best"]["provenance"], "measured", everything)
        (studies,) = [line for line in lines if line.startswith("studies: ")]
        self.assertIn('"state": "done"', re.sub(r"\s+", " ", studies))
        self.assertEqual(lines[-3:], ["worker: inactive, success", "server: inactive, success", "worker: activating"], everything)
        self.assertIn("journal: autocfg-server.service: Watchdog timeout (limit 4s)", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
