"""Emulates hosts of a network on this machine. Each host is a set of namespaces: its own interfaces, addresses, host name, shared memory
and /sys. The interfaces are TAP devices. A switch in the test's process forwards their Ethernet frames, and delays, loses or repeats
them, so that the kernel needs no module for that.

Needs root, or a user who may make user namespaces and open /dev/net/tun. Without them, `why_not()` says what is missing.
"""

import collections
import contextlib
import dataclasses
import fcntl
import heapq
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

_MTU = 9000
_NAMESPACES = ("--net", "--uts", "--ipc", "--mount")
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_QUEUED_FRAMES = 10_000  # a full switch loses frames, as a real one does


@dataclasses.dataclass
class Line:
    """What happens to the frames of one direction between two hosts."""
    cut: bool = False
    delay_s: float = 0
    loss: float = 0       # probability
    duplicate: float = 0  # probability


@dataclasses.dataclass
class Interface:
    """An interface of a host. Those of the same network reach each other. `network` 0: no other host is behind the interface, although it
    is up and has an address."""
    name: str
    network: int


def _mac(host, network):
    return bytes([2, 0, 0, 0, network, host])


def _ip(*words):
    subprocess.run(["ip", *words], check=True)


def _hold(connection, hostname, interfaces):
    """Sets up the namespaces of this process, sends the TAP devices' descriptors, and waits until `connection` is closed."""
    socket.sethostname(hostname)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True)  # its /sys/class/net has the interfaces of this namespace
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    _ip("link", "set", "lo", "up")
    taps = []
    for interface in interfaces:
        name, address, mac = interface.split(",")
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        _ip("link", "set", name, "address", mac, "mtu", str(_MTU), "addrgenmode", "none")
        _ip("addr", "add", address + "/24", "dev", name)
        _ip("link", "set", name, "up")
        taps.append(tap)
    socket.send_fds(connection, [b"ready"], taps)
    connection.recv(1)


class Host:
    """A host of a network. Its processes are started by what `command` returns."""

    def __init__(self, name, interfaces, number):
        self.name, self.interfaces, self.number = name, interfaces, number
        self.addresses = {one.name: f"10.77.{one.network}.{number}" for one in interfaces}
        self.address = next(self.addresses[one.name] for one in interfaces if one.network == 1)
        ours, its = socket.socketpair()
        with its:
            users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
            words = [f"{one.name},{self.addresses[one.name]},{_mac(number, one.network).hex(':')}" for one in interfaces]
            self._holder = subprocess.Popen(["unshare", *users, *_NAMESPACES, sys.executable, "-B", os.path.abspath(__file__),
                                             str(its.fileno()), name, *words], pass_fds=[its.fileno()], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._connection = ours
        answer, self.taps, _, _ = socket.recv_fds(ours, 16, len(interfaces))
        if answer != b"ready":
            ours.close()
            raise OSError(f"host {name}: {(self._holder.communicate()[1].strip().splitlines() or ['it ended'])[-1]}")
        self._enter = [shutil.which("nsenter"), "--target", str(self._holder.pid), *(["--user", "--preserve-credentials"] if users else []), *_NAMESPACES, "--"]

    def command(self, program, *arguments):
        """Returns the command that becomes `program` on this host, in the same process."""
        return [*self._enter, program, *arguments]

    def run(self, *words):
        return subprocess.run(self.command(*words), check=True, capture_output=True, text=True).stdout

    def close(self):
        self._connection.close()
        self._holder.communicate()
        for tap in self.taps:
            os.close(tap)


class Network(contextlib.ExitStack):
    """Hosts and the switch that connects them. `seed`: of the frames that are lost or repeated."""

    def __init__(self, seed=0):
        super().__init__()
        self._random = random.Random(seed)
        self._hosts, self._ports, self._late = {}, {}, []
        self._lines = collections.defaultdict(Line)  # (from, to) -> Line
        self.bytes = collections.Counter()           # (from, to, network) -> forwarded bytes
        self._lock = threading.Lock()
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)[::-1]
        self._ended = False
        self._switch = threading.Thread(target=self._forward, daemon=True)
        self._switch.start()

    def __exit__(self, *details):
        self._ended = True
        os.write(self._wake, b"x")
        self._switch.join()
        os.close(self._wake)
        os.close(self._woken)
        return super().__exit__(*details)

    def host(self, name, *interfaces):
        """Adds a host. It needs an interface of network 1; by default that is eth0."""
        host = Host(name, interfaces or (Interface("eth0", 1),), len(self._hosts) + 1)
        self.callback(host.close)
        with self._lock:
            self._hosts[name] = host
            for tap, one in zip(host.taps, host.interfaces):
                if one.network != 0:
                    self._ports[tap] = name, one.network, _mac(host.number, one.network)
        os.write(self._wake, b"x")
        return host

    def set(self, source, target, **values):
        """Changes the line from one host to another. None: all hosts."""
        with self._lock:
            for one in [source] if source else self._hosts:
                for other in [target] if target else self._hosts:
                    self._lines[one, other] = dataclasses.replace(self._lines[one, other], **values)

    def heal(self):
        with self._lock:
            self._lines.clear()

    def _forward(self):
        while not self._ended:
            with self._lock:
                ports = dict(self._ports)
                wait_s = max(0, self._late[0][0] - time.monotonic()) if self._late else None
            ready, _, _ = select.select([self._woken, *ports], [], [], wait_s)
            for one in ready:
                if one == self._woken:
                    os.read(one, 100)
                else:
                    self._take(one, ports)
            with self._lock:
                while self._late and self._late[0][0] <= time.monotonic():
                    _, _, target, frame = heapq.heappop(self._late)
                    self._write(target, frame)

    def _take(self, tap, ports):
        for _ in range(64):  # then others
            try:
                frame = os.read(tap, _MTU + 100)
            except BlockingIOError:
                return
            source, network, _ = ports[tap]
            with self._lock:
                for other, (target, its, mac) in ports.items():
                    if other != tap and its == network and (frame[:6] == mac or frame[0] & 1):
                        self._pass(source, target, network, other, frame)

    def _pass(self, source, target, network, tap, frame):
        line = self._lines[source, target]
        for _ in range(2 if line.duplicate and self._random.random() < line.duplicate else 1):
            if line.cut or len(self._late) > _QUEUED_FRAMES or (line.loss and self._random.random() < line.loss):
                continue
            self.bytes[source, target, network] += len(frame)
            if line.delay_s:
                heapq.heappush(self._late, (time.monotonic() + line.delay_s, self._random.random(), tap, frame))
            else:
                self._write(tap, frame)

    @staticmethod
    def _write(tap, frame):
        try:
            os.write(tap, frame)
        except OSError:  # the interface is down, or its queue is full: the frame is lost
            return


def why_not():
    """Returns why this machine cannot emulate hosts; empty if it can."""
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        return f"this machine has no {', '.join(missing)} (util-linux, iproute2)"
    try:
        with Network() as network:
            network.host("probe").run("true")
    except (OSError, subprocess.CalledProcessError) as error:
        return f"this user or kernel cannot emulate hosts: {error}"
    return ""


if __name__ == "__main__":
    _hold(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], sys.argv[3:])
