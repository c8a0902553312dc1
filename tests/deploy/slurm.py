"""Tests deploy/slurm/autocfg.sbatch on a real Slurm of one node, from the distribution's packages, in namespaces of its own.
AUTOCFG_BUILD_DIR: the build. `deploy/dependencies.sh --slurm` installs Slurm."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["AUTOCFG_BUILD_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 300
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "sinfo", "squeue")
SEARCH = "--model gpt2-tiny --global-batch 4 --seq-len 32 --space recompute=none"

CORES = len({tuple((path / "topology" / name).read_text(encoding="utf-8") for name in ("physical_package_id", "core_id"))
             for path in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*") if (path / "topology").exists()})

CONFIGURATION = """ClusterName=test
SlurmctldHost=node1(10.0.0.1)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=/run/autocfg-slurm/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/autocfg-slurm/state
SlurmdSpoolDir=/run/autocfg-slurm/spool
SlurmctldPidFile=/run/autocfg-slurm/slurmctld.pid
SlurmdPidFile=/run/autocfg-slurm/slurmd.pid
SlurmctldLogFile=/run/autocfg-slurm/slurmctld.log
SlurmdLogFile=/run/autocfg-slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=node1 NodeAddr=10.0.0.1 CPUs={cpus} RealMemory=512 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=30 State=UP
"""

# Runs in the root directory of the node. Its answers are lines for the test.
CHECKS = r"""set -u
cd /run/autocfg-slurm
export SLURM_CONF=$PWD/slurm.conf AUTOCFG_BIN=/opt/autocfg
within() { for ((tried = 0; tried < 600; ++tried)); do "$@" && return; sleep 0.1; done; echo "not within a minute: $*" >&2; exit 1; }
mkdir state spool
mungekey --create --keyfile=$PWD/key
munged --force --key-file=$PWD/key --socket=$PWD/munge --pid-file=$PWD/munged.pid --seed-file=$PWD/seed --log-file=$PWD/munged.log
slurmctld
slurmd -N node1
idle() { [ "$(sinfo --noheader --format %T 2>/dev/null)" = idle ]; }
none_runs() { ! pgrep --exact 'autocfg.*' >/dev/null; }
submit() { sbatch --parsable --output=$PWD/$1.out --error=$PWD/$1.err "${@:2}"; }
within idle

submit good --wait --nodes=1 autocfg.sbatch SEARCH --max-trials 1 --time-budget 20s --json >/dev/null
echo "good: $?"
within none_runs
submit wrong --wait --nodes=1 autocfg.sbatch --model no-such-model --global-batch 4 >/dev/null
echo "wrong: $?"
within none_runs
submit absent --wait --nodes=1 --export=ALL,AUTOCFG_BIN=/no/such/directory autocfg.sbatch SEARCH >/dev/null
echo "absent: $?"
within none_runs
# Ends while it measures, as at a time limit.
job=$(submit cancelled --nodes=1 autocfg.sbatch SEARCH --time-budget 10m)
within pgrep --exact autocfg-trainer >cancelled.pids
scancel "$job"
within idle
within none_runs
echo "cancelled: $(ls -d /tmp/tmp.* 2>/dev/null | wc -l) directories left"
"""


def run(*command, **options):
    options = {"capture_output": True, "text": True, "timeout": LIMIT_S, "check": False, **options}
    return subprocess.run([str(word) for word in command], **options)


def missing():
    absent = [program for program in PROGRAMS if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")]
    if absent:
        return f"no {', '.join(absent)}; deploy/dependencies.sh --slurm installs Slurm"
    if os.geteuid() != 0 or not shutil.which("unshare") or run("unshare", "-mpfun", "true").returncode != 0:
        return "needs root, for a node in namespaces of its own"
    return None


@unittest.skipIf(missing(), missing())
class Slurm(unittest.TestCase):
    def test_a_search_in_a_job(self):
        scratch = tempfile.TemporaryDirectory(prefix="autocfg_slurm_")
        self.addCleanup(scratch.cleanup)
        home = pathlib.Path(scratch.name)
        state = home / "slurm"
        state.mkdir()
        (state / "slurm.conf").write_text(CONFIGURATION.format(cpus=os.cpu_count()), encoding="utf-8")
        (state / "checks").write_text(CHECKS.replace("SEARCH", SEARCH), encoding="utf-8")
        shutil.copy(SOURCE / "deploy/slurm/autocfg.sbatch", state)
        boot = home / "boot"
        boot.write_text(f"""set -eu
ip link set lo up
ip address add 10.0.0.1/32 dev lo  # Slurm finds no address of its own if all are loopback
hostname node1
mkdir {home}/layer
mount -t tmpfs layer {home}/layer
cd {home}/layer
mkdir upper work root
root=$PWD/root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root || exit 77
mount -t proc proc $root/proc
mount --rbind /dev $root/dev
mount --rbind /sys $root/sys
mount -t tmpfs run $root/run
mount -t tmpfs tmp $root/tmp
mkdir -p $root/run/autocfg-slurm $root/opt/autocfg
mount --bind {state} $root/run/autocfg-slurm
mount --rbind {BUILD}/bin $root/opt/autocfg
echo '127.0.0.1 localhost
10.0.0.1 node1' >$root/etc/hosts
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot $root bash /run/autocfg-slurm/checks
""", encoding="utf-8")
        # The end of its first process ends all of the namespace.
        done = run("unshare", "-mpfun", "--kill-child", "bash", boot)
        if done.returncode == 77:
            self.skipTest("no overlay file system here")

        def written(name):
            path = state / name
            return path.read_text(encoding="utf-8", errors="replace") if path.exists() else f"no {name}\n"
        everything = done.stdout + done.stderr + "".join(
            written(name) for name in ("good.out", "good.err", "wrong.err", "absent.err", "cancelled.err", "slurmctld.log", "slurmd.log", "munged.log"))
        self.assertEqual(done.returncode, 0, everything)
        self.assertEqual(done.stdout.splitlines(), ["good: 0", "wrong: 2", "absent: 3", "cancelled: 0 directories left"], everything)
        answer = json.loads(written("good.out"))
        self.assertEqual(answer["best"]["provenance"], "measured")
        # The worker has all cores of the node, although it is one task.
        self.assertRegex(written("good.err"), r"registered with node1:\d+ as workers/node1: \d+ slots? on cpu\n")
        self.assertIn(f": {CORES} slot", written("good.err"))
        self.assertNotIn("error", written("good.err"), "a search that went well ends without errors")
        self.assertIn("no-such-model", written("wrong.err"))
        self.assertIn("the coordinator did not start", written("absent.err"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
