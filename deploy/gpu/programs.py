"""Runs programs with a time limit. All processes that they started end with them."""
import contextvars
import os
import shlex
import signal
import subprocess
import threading
import time

from gpu.outcome import OutOfTime

LAST_LINES, LAST_CHARACTERS = 15, 3000  # of a failed program's output, for the report
MOST_FAILURES, MOST_CHOICES = 30, 300  # per section
CHOICE = "op choice: "                 # before each in a rank's log (trainer/run/train_loop.cc)
DIES_WITHIN_S = 10  # after being killed; a process that hangs in the driver may not


class Notes:
    """What is noted about the programs of a section."""

    def __init__(self, section=""):
        self.section = section
        self.failures = []  # those that did not end well: {"command", "outcome", "last_lines"}
        self.choices = []   # the implementations that the ranks' ops chose, each once
        self.suspect = None  # the first run of the GPU that failed or whose results are wrong


# Each section has its own context.
_notes = contextvars.ContextVar("notes", default=Notes())

# Keeps whole outputs; see logs.py. None: they are not kept.
logs = None

# Running processes, so that an interrupted check can end them.
_running = set()
_lock = threading.Lock()
_ended = threading.Event()  # nothing starts after this


class Done:
    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.err, self.seconds = command, code, out, err, seconds

    def last_words(self):
        """Returns the last line of its output, standard error first, for a report."""
        for text in (self.err, self.out):
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1]
        return f"no output, exit code {self.code}"


def take_notes(section=""):
    """Returns new Notes, which all programs of this thread and of its in_parallel add to from now
    on."""
    notes = Notes(section)
    _notes.set(notes)
    return notes


def note_failure(command, outcome, *texts):
    failures = _notes.get().failures
    if len(failures) >= MOST_FAILURES:
        return
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    last = "\n".join(lines[-LAST_LINES:])[-LAST_CHARACTERS:]
    failures.append({"command": command, "outcome": outcome, "last_lines": last.split("\n")})


def note_suspect(run):
    """Notes a run that is worth repeating (repeat.py), unless there is one already."""
    notes = _notes.get()
    notes.suspect = notes.suspect or run


def keep_output(title, text):
    if logs is not None:
        logs.add(f"{_notes.get().section}: {title}", text)


def note_output(command, outcome, out, err):
    """Keeps the whole output, and the choices of ops that the ranks log."""
    keep_output(f"{command}\n==== {outcome}", "\n".join(text for text in (out, err) if text))
    choices = _notes.get().choices
    for line in err.splitlines():
        _, found, choice = line.partition(CHOICE)
        if found and choice not in choices and len(choices) < MOST_CHOICES:
            choices.append(choice)


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_all():
    """Kills all running programs; none starts afterwards."""
    _ended.set()
    with _lock:
        processes = list(_running)
    for process in processes:
        end_group(process)


def run(command, deadline, environment=None, directory=None, limit_s=None, noted=True, shown=None):
    """Runs a program to its end and returns its output. Past `deadline` (of time.monotonic), or
    `limit_s` if sooner, kills its whole process group and raises OutOfTime. A program that cannot
    be started returns code 127 and the reason. `noted`: a failure is added to the section's failed
    programs. `shown`: the command as the report shows it."""
    shown = shown or shlex.join(command)
    begun = time.monotonic()
    left = deadline - begun
    if limit_s is not None:
        left = min(left, limit_s)
    name = os.path.basename(command[0])
    if left <= 0 or _ended.is_set():
        raise OutOfTime(f"{name} was not started")
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, env=environment, cwd=directory,
                                   start_new_session=True)
    except OSError as error:
        note_failure(shown, "cannot be started", error.strerror)
        return Done(command, 127, "", f"{command[0]}: {error.strerror}", 0.0)
    with _lock:
        _running.add(process)
    late = False
    try:
        out, err = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        late = True
        end_group(process)
        try:
            out, err = process.communicate(timeout=DIES_WITHIN_S)
        except subprocess.TimeoutExpired as hanging:
            out, err = hanging.stdout or b"", (
                hanging.stderr or b"") + b"\nkilled, but it does not end\n"
    finally:
        end_group(process)  # processes that it left behind
        with _lock:
            _running.discard(process)
    out, err = out.decode(errors="replace"), err.decode(errors="replace")
    seconds = time.monotonic() - begun
    outcome = f"ended after {left:.0f} s" if late else f"exit code {process.returncode}"
    note_output(shown, f"{outcome}, {seconds:.1f} s", out, err)
    if late:
        if noted:
            note_failure(shown, outcome, out, err)
        words = " ".join(os.path.basename(word) for word in command[:3])
        raise OutOfTime(f"{words} ran for {left:.0f} s", out, err)
    if process.returncode != 0 and noted:
        note_failure(shown, outcome, out, err)
    return Done(command, process.returncode, out, err, seconds)


def in_parallel(jobs, tasks, work):
    """Calls work(task) for every task, at most `jobs` at a time, started in order. Returns [(task,
    result or exception)] in the tasks' order."""
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

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(worker,), daemon=True)
               for _ in range(max(1, min(jobs, len(tasks))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(zip(tasks, results))


def start(command, environment, directory, output=subprocess.PIPE):
    """Starts a program that runs until stop(). first_line() reads its output, unless it goes into
    the file `output`. Raises OSError if it does not start."""
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                               stdin=subprocess.PIPE, env=environment, cwd=directory,
                               start_new_session=True, text=True)
    with _lock:
        _running.add(process)
    return process


def first_line(process, limit_s):
    """Returns the first line of its output, or what happened instead."""
    lines = []
    reader = threading.Thread(target=lambda: lines.append(process.stdout.readline().strip()),
                              daemon=True)
    reader.start()
    reader.join(max(0.0, limit_s))
    return (lines[0] if lines and lines[0]
            else "it ended without output") if lines else f"no output within {limit_s:.0f} s"


def stop(process):
    """Kills it and all processes that it started. Returns True if it has ended; one that hangs in
    the driver is left behind after DIES_WITHIN_S."""
    end_group(process)
    try:
        process.wait(DIES_WITHIN_S)
    except subprocess.TimeoutExpired:
        return False  # its output stays open, because closing would wait for its reader
    finally:
        process.stdin.close()
        with _lock:
            _running.discard(process)
    if process.stdout:
        process.stdout.close()
    return True
