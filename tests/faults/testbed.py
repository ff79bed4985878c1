"""A testbed (tests/testbed) for the fault campaign: starts it, installs dlrun into it, breaks it
and repairs it.
"""

import os
import pathlib
import pwd
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

HERE = pathlib.Path(__file__).resolve().parent
COMMANDS = HERE.parent / "testbed"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# The installation prefix of the testbed's Slurm; None for the system's Slurm. All Slurm commands
# come from this prefix, because the daemons refuse commands of another version.
SLURM_PREFIX = os.environ.get("DLRUN_TESTBED_SLURM")
SLURM_FOLDERS = [f"{SLURM_PREFIX}/bin", f"{SLURM_PREFIX}/sbin"] if SLURM_PREFIX else []
DISK_COUNT = 4  # small file systems; created before the nodes, so that every node sees them
DISK_BYTES = 96 << 20


T = TypeVar("T")


class Failure(Exception):
    """The test of one fault cannot continue, because a step of the harness, or a dlrun command that
    the test needs, failed."""


def slurm_command(name: str) -> str:
    """Returns the path of a command of the testbed's Slurm."""
    found = shutil.which(name, path=":".join([*SLURM_FOLDERS, SYSTEM_PATH]))
    if not found:
        raise Failure(f"Slurm's command {name} is not installed")
    return found


def wait_for(condition: Callable[[], T], limit_s: float, every_s: float = 0.02) -> T | None:
    """Waits until condition() returns a true value, and returns this value; returns None after
    limit_s."""
    until = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > until:
            return None
        time.sleep(every_s)
    return found


class Testbed:
    """One Slurm cluster. state: its state directory. build: the build tree that up() installs.
    Several threads may call its functions at the same time; call mend() only while no job runs.
    command(), and functions that call it, raise Failure or subprocess.SubprocessError if a command
    fails. as_user() and as_root() raise only if a command exceeds its time limit."""

    def __init__(self, state: pathlib.Path, build: pathlib.Path) -> None:
        self.state, self.build = state, build
        self.disks = [pathlib.Path(f"{state}.disks") / str(number) for number in range(DISK_COUNT)]
        self.free_disks = list(self.disks)
        self.lock = threading.Lock()
        self.env: dict[str, str] = {}
        self.root_search_path = ":".join([*SLURM_FOLDERS, os.environ["PATH"]])

    def command(self, name: str, *words: str, limit_s: float = 120) -> str:
        """Runs a command of tests/testbed. Returns its standard output."""
        done = subprocess.run(
            [str(COMMANDS / name), *words],
            env=os.environ | {"DLRUN_TESTBED_DIR": str(self.state)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
        if done.returncode != 0:
            message = done.stderr.strip() or done.stdout.strip()
            raise Failure(f"testbed: {name} {' '.join(words)}: exit {done.returncode}: {message}")
        return done.stdout

    def up(self) -> None:
        """Removes what an earlier testbed has left, mounts the small disks, starts the cluster, and
        installs dlrun and the programs of the jobs into it."""
        self.down()
        for disk in self.disks:
            disk.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [
                    "mount",
                    "-t",
                    "tmpfs",
                    "-o",
                    f"mode=1777,size={DISK_BYTES}",
                    "dlrun-faults",
                    str(disk),
                ],
                check=True,
            )
        self.command("up")
        prefix = self.state / "prefix"
        subprocess.run(
            ["cmake", "--install", str(self.build), "--prefix", str(prefix)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        subprocess.run(["chmod", "-R", "a+rX", str(prefix)], check=True)
        for line in self.command("env").splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            if name != "PATH":
                self.env[name] = value.replace("\\", "")
        bridge = re.search(r"^bridge=(\S+)$", (self.state / "settings").read_text(), re.MULTILINE)
        if not bridge:
            raise Failure(f"{self.state}/settings has no line with the bridge")
        # The folder of the testbed's control groups. Its parent also has those of other testbeds.
        self.cgroups = self.state / "freezer" / bridge[1]
        self.user = pwd.getpwnam(self.env["DLRUN_TESTBED_USER"])
        self.home = pathlib.Path(self.env["DLRUN_TESTBED_HOME"])
        self.nodes = self.env["DLRUN_TESTBED_NODES"].split()
        programs = self.home / "programs"
        programs.mkdir()
        for source in (HERE / "programs").glob("*.py"):
            (programs / source.name).write_bytes(source.read_bytes())
            (programs / source.name).chmod(0o644)
        programs.chmod(0o755)

    def down(self) -> None:
        self.command("down")
        for disk in self.disks:
            if os.path.ismount(disk):
                subprocess.run(["umount", "--lazy", str(disk)], check=True)
            if disk.exists():
                disk.rmdir()
        if self.disks[0].parent.exists():
            self.disks[0].parent.rmdir()

    def mend(self) -> None:
        """Connects all nodes to the network, resumes paused daemons, restarts dead ones, and waits
        until all nodes are usable."""
        for node in self.nodes:
            self.command("fault", "plug", node)
        for daemon in ("munged", "slurmctld", *self.nodes):
            if pid := self.daemon_pid(daemon):
                try:
                    os.kill(pid, 18)  # SIGCONT
                except ProcessLookupError:
                    pass
        self.command("up", "--again")

    def fault(self, what: str, target: str) -> None:
        """Injects a fault into a daemon or a node (tests/testbed/fault)."""
        self.command("fault", what, target)

    def daemon_pid(self, name: str) -> int | None:
        """Returns the process id of munged, slurmctld or a node's slurmd; None if it does not run.
        """
        file = self.state / "pids" / (f"slurmd-{name}" if re.fullmatch(r"n\d+", name) else name)
        try:
            pid = int(file.read_text().split()[0])
        except (OSError, IndexError):
            return None
        return pid if os.path.exists(f"/proc/{pid}") else None

    def as_user(
        self, words: Sequence[str], folder: pathlib.Path, path_prefix: str = "", limit_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as the testbed's ordinary user. Returns its output and its exit code,
        whatever this code is. path_prefix: folders to put first in PATH."""
        env = self.env | {
            "HOME": str(self.home),
            "USER": self.user.pw_name,
            "LOGNAME": self.user.pw_name,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "PATH": ":".join(
                [
                    *([path_prefix] if path_prefix else []),
                    f"{self.state}/prefix/bin",
                    *SLURM_FOLDERS,
                    SYSTEM_PATH,
                ]
            ),
        }
        return subprocess.run(
            list(words),
            cwd=folder,
            env=env,
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )

    def as_root(self, *words: str, limit_s: float = 30) -> str:
        """Runs a Slurm command as root. Returns its output, whatever its exit code."""
        done = subprocess.run(
            list(words),
            env={"PATH": self.root_search_path} | self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
        return done.stdout

    def take_disk(self) -> pathlib.Path:
        """Returns a small, empty file system for one job. Waits until one is free.
        give_disk_back() makes it free again."""
        while True:
            with self.lock:
                if self.free_disks:
                    disk = self.free_disks.pop()
                    break
            time.sleep(0.1)
        subprocess.run(["find", str(disk), "-mindepth", "1", "-delete"], check=True)
        return disk

    def give_disk_back(self, disk: pathlib.Path) -> None:
        with self.lock:
            self.free_disks.append(disk)

    def shared_memory_files(self) -> list[tuple[str, str]]:
        """Returns the files in the nodes' /dev/shm as (node, name)."""
        found = []
        for node in self.nodes:
            try:
                folder = f"/proc/{self.daemon_pid(node)}/root/dev/shm"
                found += [(node, name) for name in os.listdir(folder)]
            except OSError:
                pass  # The node's slurmd does not run.
        return found
