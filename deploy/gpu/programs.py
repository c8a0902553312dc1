"""Runs programs with a time limit. Whatever they started ends with them."""
import os
import signal
import subprocess
import threading
import time

from gpu.report import OutOfTime

# Processes under way, so that an interrupted check ends them.
_running = set()
_lock = threading.Lock()


class Done:
    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.err, self.seconds = command, code, out, err, seconds

    def last_words(self):
        """The last line that it wrote to say why, for a report."""
        for text in (self.err, self.out):
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1]
        return f"no word, exit code {self.code}"


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_all():
    with _lock:
        processes = list(_running)
    for process in processes:
        end_group(process)


def run(command, deadline, environment=None, directory=None, limit_s=None):
    """Runs it to its end and returns what it said. Past `deadline` (of time.monotonic), or `limit_s` if sooner, its whole group is killed and OutOfTime raised.
    A program that cannot be started answers with code 127 and why."""
    begun = time.monotonic()
    left = deadline - begun
    if limit_s is not None:
        left = min(left, limit_s)
    name = os.path.basename(command[0])
    if left <= 0:
        raise OutOfTime(f"{name} was not started")
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment,
                                   cwd=directory, start_new_session=True)
    except OSError as error:
        return Done(command, 127, "", f"{command[0]}: {error.strerror}", 0.0)
    with _lock:
        _running.add(process)
    try:
        out, err = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        end_group(process)
        process.communicate()
        raise OutOfTime(f"{' '.join(os.path.basename(word) for word in command[:3])} ran for {left:.0f} s") from None
    finally:
        end_group(process)  # what it left behind
        with _lock:
            _running.discard(process)
    return Done(command, process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - begun)


def in_parallel(jobs, tasks, work):
    """work(task) for every task, at most `jobs` at a time, in order of starting. Returns [(task, result or exception)] in the tasks' order."""
    results = [None] * len(tasks)
    position = iter(range(len(tasks)))
    lock = threading.Lock()

    def worker():
        while True:
            with lock:
                index = next(position, None)
            if index is None:
                return
            try:
                results[index] = work(tasks[index])
            except Exception as error:  # noqa: BLE001: handed to the caller
                results[index] = error

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(max(1, min(jobs, len(tasks))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(zip(tasks, results))


def start(command, environment, directory):
    """A program that goes on until stop(); its standard output is read by first_line()."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.PIPE, env=environment, cwd=directory,
                               start_new_session=True, text=True)
    with _lock:
        _running.add(process)
    return process


def first_line(process, limit_s):
    """The first line that it writes, or what happened instead."""
    lines = []
    reader = threading.Thread(target=lambda: lines.append(process.stdout.readline().strip()), daemon=True)
    reader.start()
    reader.join(max(0.0, limit_s))
    return (lines[0] if lines and lines[0] else "it ended without a word") if lines else f"no word within {limit_s:.0f} s"


def stop(process):
    end_group(process)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with _lock:
        _running.discard(process)
