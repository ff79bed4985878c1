#!/usr/bin/env python3
"""usage: cut_after.py MILLISECONDS FOLDER COMMAND...

Runs the command in the folder. If the command still runs after MILLISECONDS, kills it and all
processes below it, like a laptop whose power fails. Exits with the command's code, or with
137 after a kill.
"""

import os
import signal
import subprocess
import sys


def main():
    after_s, folder, command = int(sys.argv[1]) / 1000, sys.argv[2], sys.argv[3:]
    child = subprocess.Popen(command, cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        return child.wait(after_s)
    except subprocess.TimeoutExpired:
        for process in process_tree(child.pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.wait()
        return 137


def process_tree(root):
    """Returns the ids of the process `root` and of all processes below it."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                pass
    found = [root]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


sys.exit(main())
