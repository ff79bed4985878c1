#!/usr/bin/env python3
"""Creates malicious run directories, and checks how each command of dlrun handles them.

  hostile_runs.py make FOLDER --private FILE --process HOST:PID:START [--suffix TEXT]
      makes one run of each kind in FOLDER, with the name KIND-TEXT, and one with a hostile name
  hostile_runs.py check FOLDER... --private FILE [--own] [--only KIND]
      calls every command on each run, prints the faults, and exits with 1 if there are any

`make` needs no privileges; the caller may change the owner of the runs afterwards. `check` runs as
the attacked user.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import zlib
from pathlib import Path

MAX_SECONDS = 5
MAX_MEMORY_MIB = 200
MAX_OUTPUT_BYTES = 32 << 20

TIME = "2026-01-02T03:04:05.678Z"  # the valid time in all files and events

# A terminal that gets this text sets its clipboard (OSC 52) and title, and clears its screen. The
# text also has CSI as one character (U+009B), a bidirectional override, a zero-width character, a
# forged line and NUL.
NASTY = ("x\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\u200b\r\n"
         "forged: yes\x00\x7fend")


def with_checksum(event):
    """Returns a line of events.jsonl with its checksum."""
    text = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
    body = text[:-1]
    crc = zlib.crc32(body.encode("utf-8", "surrogateescape"))
    return body + ',"crc":"%08x"}\n' % crc


def events(text=NASTY, ended=True):
    """Returns an events.jsonl in which every text is `text`. ended: False leaves out the events at
    the end."""
    lines = [
        {"t": TIME, "event": "claimed", "attempt": 0, "job": text, "cluster": text, "host": text,
         "pid": 1, "again": False},
        {"t": TIME, "event": "started", "attempt": 0, "ranks": 2, "lead": text, "argv": [text]},
        {"t": TIME, "event": "joined", "attempt": 0, "ranks": 2, "hosts": text, "seconds": 1.5},
        {"t": TIME, "event": "progress", "attempt": 0,
         "epoch": 1, "epochs": 2, "step": 3, "steps": 4, "loss": 0.5, text: text},
        {"t": TIME, "event": "warning", "attempt": 0, "message": text, "rank": 1, "host": text},
        {"t": TIME, "event": "samples", "attempt": 0, "ranks": 2, "cpu": [1, 1, 1], "slow_ranks": 1,
         "slow": [{"rank": 1, "host": text, "lag": 3, "work_ms": 5}]},
        {"t": TIME, "event": "rank_failed", "attempt": 0, "rank": 1, "host": text, "pid": 1,
         "code": 3, "signal": text, "error": text},
        {"t": TIME, "event": "restarting", "attempt": 0, "cause": text, "left": 1, "by": text,
         "exclude": text},
        {"t": TIME, "event": text, "attempt": 0, "message": text},
        {"t": TIME, "event": "result", "attempt": 0,
         text: text, "test_accuracy": 0.5, "nested": {text: [text]}},
    ]
    if ended:
        lines.append({"t": TIME, "event": "attempt_end", "attempt": 0, "code": 3, "reason": text,
                      "cause": text, "first_failed": {"rank": 1, "host": text, "code": 3,
                                                      "signal": text}, "seconds": 2})
        lines.append({"t": TIME, "event": "ended", "attempt": 0, "state": "failed", "code": 3,
                      "message": text})
    return "".join(with_checksum(line) for line in lines)


def submission(**more):
    return {"token": "ab" * 16, "state": "submitted", "cluster": "", "job": "424242",
            "argv": ["sbatch"], "time": TIME, **more}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    elif not isinstance(content, bytes):
        content = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape")
    path.write_bytes(content)


SCRIPT = "#!/bin/bash\n#SBATCH --job-name=hostile\necho hello\n"
SPEC = "name: hostile\nlaunch:\n  command: [echo, hello]\n"


def write_ordinary_run(run):
    """Writes the files that each kind starts from: a run that failed."""
    write(run / "submission.json", submission())
    write(run / "claim", {"cluster": "", "job": "424242", "token": "ab" * 16,
                          "log": str(run / "slurm-424242.out")})
    write(run / "attempt", "0\n")
    write(run / "events.jsonl", events("plain"))
    write(run / "job.sh", SCRIPT)
    write(run / "spec.yaml", SPEC)
    write(run / "resolved.yaml", SPEC)
    write(run / "plan.json", {"name": "hostile"})
    write(run / "provenance.json",
          {"time": TIME, "git": {"commit": "abc"}, "directory": "/tmp"})
    write(run / "surroundings.json",
          {"attempt": 0, "time": "x", "slurm": "x", "cluster": "x", "partition": "x",
           "nodes": ["n1"], "modules": [], "conda": None, "venv": None})
    write(run / "ranks.json", ranks("n1"))
    write(run / "metrics.jsonl",
          '{"time":"2026-01-02T03:04:05.678Z","attempt":0,"epoch":1,"step":1,"loss":0.5}\n')
    write(run / "slurm-424242.out", "a line\n")
    write(run / "logs/attempt-0/rank-0000.log", "a line\n")
    write(run / "logs/attempt-0/rank-0001.log", "its last words\n")


FILES = ["submission.json", "claim", "attempt", "events.jsonl", "job.sh", "spec.yaml",
         "resolved.yaml", "plan.json", "provenance.json", "surroundings.json", "ranks.json",
         "metrics.jsonl", "slurm-424242.out", "logs/attempt-0/rank-0000.log",
         "logs/attempt-0/rank-0001.log"]


def ranks(node):
    """Returns the content of ranks.json: two ranks on this node."""
    return {"time": TIME, "attempt": 0, "ranks": 2, "nodes": [node, node],
            "columns": ["rank", "node", "cpu", "rss_bytes", "step", "work_ms", "lag", "slow",
                        "age_s"], "rows": [[0, 0, 1.0, 1 << 20, 3, 5, 0, False, 1],
                                           [1, 1, 1.0, 1 << 20, 3, 5, 2, True, 1]]}


# Each function with the parameters (run, arguments) changes an ordinary run into a hostile one. The
# kind of this run has the function's name.


def escapes(run, arguments):
    """NASTY is in every text that dlrun may show."""
    write(run / "submission.json",
          submission(cluster=NASTY, job="1" + NASTY, message=NASTY, output=NASTY, argv=[NASTY],
                     time=NASTY))
    write(run / "claim", {"cluster": NASTY, "job": NASTY, "token": "ab" * 16, "log": "/" + NASTY})
    write(run / "events.jsonl", events())
    write(run / "provenance.json",
          {"time": NASTY, "git": {"commit": NASTY, "branch": NASTY}, "directory": NASTY,
           "user": NASTY, "host": NASTY, "argv": [NASTY], "repeats": NASTY})
    write(run / "surroundings.json",
          {"attempt": 0, "time": NASTY, "slurm": NASTY, "cluster": NASTY, "partition": NASTY,
           "nodes": [NASTY], "modules": [NASTY], "conda": {"prefix": NASTY, "packages": [NASTY]},
           "venv": None})
    write(run / "ranks.json", ranks(NASTY))
    write(run / "metrics.jsonl",
          json.dumps({"time": NASTY, "attempt": 0, "epoch": 1, "step": 1, "loss": 0.5,
                      "precision": NASTY}) + "\n")
    write(run / "job.sh", SCRIPT + "# " + NASTY + "\n")
    write(run / "spec.yaml", "name: " + NASTY + "\n")
    write(run / "resolved.yaml", "name: " + NASTY + "\n")
    for log in FILES[-3:]:
        write(run / log, (NASTY + "\n").encode() * 20 + b"\x9b2J\x90 raw C1\xff\xfe\n\x1b[31")


def escapes_pending(run, arguments):
    """Writes the files of escapes(), but of a run that has not ended."""
    escapes(run, arguments)
    write(run / "events.jsonl", events(ended=False))
    (run / "claim").unlink()


def escapes_refused(run, arguments):
    escapes(run, arguments)
    write(run / "submission.json", submission(state="refused", job="", message=NASTY))
    (run / "claim").unlink()
    (run / "events.jsonl").unlink()


def deep(run, arguments):
    arrays = "[" * 100_000 + "]" * 100_000
    objects = '{"a":' * 100_000 + "1" + "}" * 100_000
    for number, name in enumerate(["submission.json", "claim", "provenance.json",
                                   "surroundings.json", "ranks.json", "plan.json"]):
        write(run / name, '{"state":"submitted","a":%s}' % (arrays if number % 2 else objects))
    write(run / "metrics.jsonl", ('{"loss":%s}\n' % arrays) * 3)
    write(run / "resolved.yaml", "[" * 50_000)
    write(run / "spec.yaml", "{a: " * 50_000)


def deep_events(run, arguments):
    """Only events.jsonl is deeply nested, so that the files read before it are valid."""
    for key in ("result", "progress", "samples", "ended"):
        body = ('{"t":"2026-01-02T03:04:05.678Z","event":"%s","attempt":0,"state":"failed",'
                '"code":1,"message":"x","x":%s' % (key, "[" * 100_000 + "]" * 100_000))
        line = body + ',"crc":"%08x"}\n' % zlib.crc32(body.encode())
        with open(run / "events.jsonl", "a") as file:
            file.write(line)


def wide_progress(run, arguments):
    """The program reports many large fields many times."""
    fields = {"field%d" % i: "y" * 1000 for i in range(200)}
    write(run / "events.jsonl",
          events("plain")
          + "".join(with_checksum({"t": TIME, "event": "progress",
                                   "attempt": 0, "step": i, **fields}) for i in range(100)))


def fifos(run, arguments):
    for name in FILES:
        (run / name).unlink()
        os.mkfifo(run / name, 0o644)


def fifo_logs(run, arguments):
    """The logs and other files that commands show are FIFOs. The files with the run's state are
    not."""
    for name in FILES[-3:] + ["job.sh", "resolved.yaml", "spec.yaml", "metrics.jsonl",
                              "ranks.json"]:
        (run / name).unlink()
        os.mkfifo(run / name, 0o644)


def directories(run, arguments):
    for name in FILES:
        (run / name).unlink()
        (run / name).mkdir()


def sparse(run, arguments):
    for name in ["events.jsonl", "metrics.jsonl", "ranks.json", "resolved.yaml", "provenance.json",
                 "slurm-424242.out", "logs/attempt-0/rank-0001.log"]:
        with open(run / name, "ab") as file:
            file.truncate(2 << 30)


def many_events(run, arguments):
    line = with_checksum({"t": TIME, "event": "progress", "attempt": 0,
                          "step": 1, "steps": 10, "note": "z" * 100})
    with open(run / "events.jsonl", "a") as file:
        for _ in range(64):
            file.write(line * (1 << 13))


def links(run, arguments):
    """Each file is a link to a file that only the attacked user may read. No content of it may be
    shown."""
    for name in FILES:
        (run / name).unlink()
        (run / name).symlink_to(arguments.private)


def odd_links(run, arguments):
    targets = ["/", "/dev/zero", "loop", "/dev/tty", "/proc/self/mem"]
    for number, name in enumerate(FILES):
        (run / name).unlink()
        (run / name).symlink_to(targets[number % len(targets)])
    (run / "loop").symlink_to("loop")


def claimed_log(run, arguments):
    """submission.json and the claim have the path of a private file as the run's log."""
    write(run / "submission.json", submission(output=arguments.private))
    write(run / "claim", {"cluster": "", "job": "424242", "token": "ab" * 16,
                          "log": arguments.private})
    (run / "events.jsonl").unlink()


def job_option(run, arguments):
    """The job id is an option of scancel and squeue."""
    write(run / "submission.json", submission(job="--me"))
    (run / "claim").unlink()
    (run / "events.jsonl").unlink()


def job_list(run, arguments):
    write(run / "submission.json", submission(job="1,2,3 --me", cluster="--me"))
    (run / "claim").unlink()
    (run / "events.jsonl").unlink()


def local_process(run, arguments):
    """The job on this machine is a process of the attacked user."""
    write(run / "submission.json", submission(cluster="local", job=arguments.process))
    write(run / "claim", {"cluster": "local", "job": arguments.process, "token": "ab" * 16})
    write(run / "events.jsonl", events("plain", ended=False))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def server(run, arguments):
    """submission.json asks to send a token file of the attacked user to a server of the attacker.
    `check` runs that server."""
    write(run / "submission.json",
          submission(server={"url": "http://127.0.0.1:%d" % free_port(),
                             "token_file": arguments.private}))
    (run / "claim").unlink()
    (run / "events.jsonl").unlink()


def spec_base(run, arguments):
    """The spec inherits from a private file. No message may quote that file."""
    for name in ("spec.yaml", "resolved.yaml"):
        write(run / name, SPEC + "base: %s\n" % arguments.private)


def make_sweep(run, points, keys=("train.lr",), arrays=1):
    for name in FILES:
        (run / name).unlink(missing_ok=True)
    write(run / "spec.yaml", SPEC)
    write(run / "sweep.json",
          {"keys": list(keys), "arrays": arrays, "max_parallel": 2, "points": points})


def many_arrays(run, arguments):
    make_sweep(run, [{"array": 0, "task": 0, "values": ["0.1"]}], arrays=(1 << 63) - 1)


def far_points(run, arguments):
    make_sweep(run, [{"array": (1 << 63) - 2, "task": (1 << 63) - 1, "values": ["0.1"]}] * 3,
               arrays=(1 << 63) - 1)


def many_points(run, arguments):
    make_sweep(run, [{"array": 0, "task": n, "values": [str(n)]} for n in range(1_000_000)])


def nasty_sweep(run, arguments):
    make_sweep(run, [{"array": 0, "task": n, "values": [NASTY, NASTY]} for n in range(3)],
               keys=(NASTY, "train.lr"))
    write(run / "array-0/submission.json", submission(job="1" + NASTY, cluster=NASTY))
    for n in range(3):
        point = run / "array-0" / str(n)
        point.mkdir()
        escapes(point, arguments)
        write(point / "submission.json", {"task": n})
    write(run / "array-0/2/resubmitted", str(run / "array-0/1") + NASTY)


def ring(run, arguments):
    """The resubmissions lead from point 0 to 1, from point 1 to 2, and from point 2 to the
    sweep."""
    make_sweep(run, [{"array": 0, "task": n, "values": [str(n)]} for n in range(3)])
    for n in range(3):
        point = run / "array-0" / str(n)
        write_ordinary_run(point)
        write(point / "submission.json", {"task": n})
        write(point / "resubmitted", str(run / "array-0" / str((n + 1) % 3)) if n < 2 else str(run))
    write(run / "array-0/submission.json", submission())


KINDS = {f.__name__: f for f in (escapes, escapes_pending, escapes_refused, deep, deep_events,
                                 wide_progress, fifos, fifo_logs, directories, sparse, many_events,
                                 links, odd_links, claimed_log, job_option, job_list, spec_base,
                                 local_process, server, many_arrays, far_points, many_points,
                                 nasty_sweep, ring)}

# The id of a run is the name of its directory, which may contain any byte except NUL and a slash.
NASTY_NAME = "escapes_name-" + NASTY.replace("\x00", "").replace("/", "")


def make(arguments):
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for kind, fill in KINDS.items():
        run = folder / ("%s-%s" % (kind, arguments.suffix))
        write_ordinary_run(run)
        fill(run, arguments)
    run = folder / NASTY_NAME
    write_ordinary_run(run)
    escapes(run, arguments)
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


# -------------------------------------------------------------------------------------------- check

# RUN is replaced by the run's path. The second value is True if the command is also called on a
# terminal.
COMMANDS = [
    (["status", "RUN"], True),
    (["status", "RUN", "--json"], False),
    (["top", "RUN", "--once"], True),
    (["top", "RUN", "--json"], False),
    (["logs", "RUN"], True),
    (["logs", "RUN", "--rank", "1", "-n", "5"], True),
    (["report", "RUN", "-o", "report-of-hostile.html"], True),
    (["sweep", "RUN"], True),
    (["sweep", "RUN", "--json"], False),
    (["diff", "RUN"], True),
    (["cancel", "RUN"], True),
    (["attach", "RUN", "--", "true"], True),
    (["forward", "RUN", "8888"], True),
    (["ssh-config", "RUN"], True),
    (["resubmit", "RUN"], True),
    (["check", "RUN/resolved.yaml"], True),
    (["explain", "RUN/resolved.yaml"], True),
    (["render", "RUN/spec.yaml"], True),
    (["run", "RUN/spec.yaml", "--dry-run"], False),
    (["submit", "RUN/job.sh", "--dry-run"], True),
    (["interactive", "RUN/spec.yaml", "--dry-run"], False),
    (["container", "list"], False),
]
COMMANDS_ON_FOLDER = [
    (["ls", "--runs", "FOLDER", "--all"], True),
    (["ls", "--all"], True),
    (["ls", "--all", "--json"], False),
    (["status", "last"], True),
]

REPORT = "report-of-hostile.html"

# Sequences that dlrun itself prints on a terminal: colours, and in logs the start of a line that
# replaces the line before.
DLRUN_SEQUENCES = re.compile(rb"\x1b\[[0-9;]*m|\r\x1b\[K|\r\n")
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def disable_core_dumps():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def call(words, on_terminal):
    """Runs dlrun for at most twice MAX_SECONDS, and reads at most about MAX_OUTPUT_BYTES of its
    output. Returns (status, output, seconds, MiB); status is None if the command did not end in
    time."""
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    if on_terminal:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    else:
        ours, theirs = os.pipe()
    began = time.monotonic()
    with open(os.devnull) as nothing:
        child = subprocess.Popen(["dlrun", *words], stdin=nothing, stdout=theirs, stderr=theirs,
                                 env=environment, start_new_session=True,
                                 preexec_fn=disable_core_dumps)
    os.close(theirs)
    output, is_open = bytearray(), True
    while is_open and time.monotonic() - began < MAX_SECONDS * 2:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # No process has the pseudo-terminal open any more.
                piece = b""
            is_open = bool(piece) and len(output) < MAX_OUTPUT_BYTES
            output += piece
    if is_open:
        os.killpg(child.pid, signal.SIGKILL)
    os.close(ours)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - began
    child.returncode = 0
    return (None if is_open else os.waitstatus_to_exitcode(status), bytes(output), seconds,
            usage.ru_maxrss / 1024)


class Listener:
    """The attacker's server: records the bytes that it receives."""

    def __init__(self, port):
        self.received = b""
        self.socket = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.socket.accept()
            with peer:
                peer.settimeout(2)
                try:
                    self.received += peer.recv(1 << 16)
                    peer.sendall(b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n")
                except OSError:
                    pass


def attacker_port_in(folder):
    """Returns the port of the attacker's server from the run `server` in this folder."""
    [run] = folder.glob("server-*")
    journal = json.loads((run / "submission.json").read_text(encoding="utf-8"))
    return int(journal["server"]["url"].rsplit(":", 1)[1])


def unsafe_bytes(output):
    """Returns a description of the first bytes that control a terminal or are not UTF-8; "" if
    there are none."""
    try:
        text = output.decode()
    except UnicodeDecodeError as error:
        return "not UTF-8: %r" % output[max(error.start - 40, 0) : error.start + 40]
    found = CONTROLS.search(text)
    return ("raw control character %r in %r" % (
        found.group(), text[max(found.start() - 40, 0) : found.start() + 40]) if found else "")


def call_and_find_faults(words, on_terminal, private):
    report = Path(REPORT)
    report.unlink(missing_ok=True)
    status, output, seconds, mebibytes = call(words, on_terminal)
    faults = []
    if status is None:
        faults.append("did not end in %d s" % (MAX_SECONDS * 2))
    elif status < 0 or status in (134, 136, 139):
        faults.append("ended by signal or abort: %d" % status)
    if seconds > MAX_SECONDS:
        faults.append("took %.1f s" % seconds)
    if mebibytes > MAX_MEMORY_MIB:
        faults.append("took %.0f MiB" % mebibytes)
    wants_whole_log = words[0] == "logs" and "-n" not in words
    if len(output) >= MAX_OUTPUT_BYTES and not wants_whole_log:
        faults.append("printed %d MiB" % (len(output) >> 20))
    page = report.read_bytes() if report.exists() else b""
    if private in output or private in page:
        faults.append("shows a private file")
    # A pipe gets scripts and logs byte for byte.
    is_raw_output = not on_terminal and (words[0] == "logs" or words[-1] == "--dry-run")
    if not is_raw_output and not faults:
        shown = DLRUN_SEQUENCES.sub(b"\n", output) if on_terminal else output
        faults += [fault for fault in (unsafe_bytes(shown), unsafe_bytes(page)) if fault]
    return faults


def dlrun_may_show_private_file(words, is_own):
    """Returns True if dlrun may show the private file. There are two cases: the command line has
    the path of a link to the file, not only of the run that contains the link; or the run is the
    user's own and has the file as its log, because resources.output may be any file."""
    return ("/links-" in words[1] and not words[1].endswith("-own")
            and not words[1].endswith("-foreign") or is_own and "/claimed_log-" in words[1])


def check(arguments):
    private = Path(arguments.private).read_bytes().strip()
    fault_count = call_count = 0

    def try_command(words, on_terminal):
        nonlocal fault_count, call_count
        call_count += 1
        for fault in call_and_find_faults(words, on_terminal, private):
            if fault == "shows a private file" and dlrun_may_show_private_file(
                    words, arguments.own):
                continue
            fault_count += 1
            print("%s%s: %s" % (" ".join(repr(w)[1:-1] for w in words),
                                " (terminal)" if on_terminal else "", fault), flush=True)

    for folder in map(Path, arguments.folder):
        listener = Listener(attacker_port_in(folder))
        runs = [run for run in sorted(folder.iterdir())
                if not arguments.only or run.name.startswith(arguments.only)]
        commands = [([word.replace("RUN", str(run)) for word in words], also_on_terminal)
                    for run in runs for words, also_on_terminal in COMMANDS]
        commands += [([word.replace("FOLDER", str(folder)) for word in words], also_on_terminal)
                     for words, also_on_terminal in COMMANDS_ON_FOLDER]
        for words, also_on_terminal in commands:
            try_command(words, False)
            if also_on_terminal:
                try_command(words, True)
            if listener.received:
                fault_count += 1
                print("%s: sent to the attacker's server: %r" % (
                    " ".join(words), listener.received[:200]), flush=True)
                listener.received = b""
    print("%d calls, %d faults" % (call_count, fault_count))
    return 1 if fault_count else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("act", choices=["make", "check"])
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--private", required=True,
                        help="a file that only the attacked user may read")
    parser.add_argument("--process", default="nowhere:1:1",
                        help="a process of the attacked user, as HOST:PID:START")
    parser.add_argument("--suffix", default="0", help="the end of each run's name")
    parser.add_argument("--own", action="store_true",
                        help="the runs belong to the attacked user")
    parser.add_argument("--only", default="",
                        help="check only the runs whose names start with this")
    arguments = parser.parse_args()
    if arguments.act == "make":
        arguments.folder = arguments.folder[0]
        return make(arguments)
    return check(arguments)


if __name__ == "__main__":
    sys.exit(main())
