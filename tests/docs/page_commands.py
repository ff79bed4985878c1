#!/usr/bin/env python3
"""Runs the commands of the pages: each line that starts with `$ ` in a block `console` of README.md
and of the pages below docs, in the order of the page.

usage: page_commands.py run DLRUN [PAGE...]      runs the pages that need no Slurm
       page_commands.py slurm                    prints the pages that need Slurm
       page_commands.py prepare PAGE FOLDER      writes the files and commands.sh of a page
       page_commands.py marks                    checks the marks, and prints the commands that
                                                 are not run, with the reasons

Each page runs in a folder of its own, which is also the home directory. The folder contains the
files of tests/docs/files, such as exp.yaml, and the files that the page shows: a block whose first
line is a comment with a file name, such as `# jax.yaml`, is that file. Marks in HTML comments set
everything else. A mark stands on a line of its own before the block that it concerns:

    <!-- file: job.sh -->           the block is this file
    <!-- not run: REASON -->        the commands of the block are not run
    <!-- exits with 5 -->           each command of the block exits with 5 and not with 0
    <!-- output is compared -->     each line of output that the block shows is in the real output
    <!-- before this, the test executes: COMMAND -->
                                   the command runs before the block; the page does not show it
    <!-- page needs Slurm -->       anywhere: tests/e2e/pages.bats runs the page on the testbed

commands.sh prints one line for each command: `ok PAGE:LINE COMMAND`, or `not ok ...` and the output
of the command. It exits with 1 if it printed `not ok`. `run` gives a page 2 minutes, and exits with
1 if a page failed or took longer, if a mark is wrong, or if no page has a command to run.
"""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES_FOLDER = pathlib.Path(__file__).resolve().parent / "files"
LIMIT_S = 120  # for all commands of a page
FILE_NAME = re.compile(r"# ((?:~/)?[\w.][\w./-]*\.(?:yaml|py|sh|sbatch|toml))(?: .*)?")
MARK = re.compile(r"<!-- (.*?) -->")
MARK_LINE = re.compile(r"(<!-- .*? -->)+")
# These commands are hidden, so that dlrun does not call the Slurm of this machine, if there is one.
SLURM_COMMANDS = {"sbatch", "srun", "salloc", "squeue", "scontrol", "sinfo", "sacct", "scancel",
                  "sacctmgr", "sshare", "sprio", "sattach", "sbcast", "sstat"}


class PageError(Exception):
    pass


@dataclass
class Command:
    line: int
    text: str
    expected_code: int = 0
    why_not_run: str = ""
    expected_lines: list = field(default_factory=list)  # lines that its output must contain


@dataclass
class Page:
    name: str
    needs_slurm: bool = False
    commands: list = field(default_factory=list)
    files: dict = field(default_factory=dict)


def all_pages():
    """Returns the names of all pages, as paths in the repository."""
    return ["README.md"] + sorted(str(page.relative_to(ROOT))
                                  for page in (ROOT / "docs").rglob("*.md"))


def apply_mark(text, marks, where):
    """Adds a mark to the marks for the next block. Other comments have no effect. A comment that
    looks like a mark with a mistake is an error."""
    name, _, value = text.partition(": ")
    if name in ("file", "not run", "before this, the test executes"):
        if not value.strip():
            raise PageError(f"{where}: the mark '{name}' needs a text")
        for test in re.findall(r"\btests/[\w/.-]+\.\w+", value):
            if not (ROOT / test).is_file():
                raise PageError(f"{where}: {test} does not exist")
        marks.setdefault(name, []).append(value.strip())
    elif match := re.fullmatch(r"exits with (\d+)", text):
        marks["exits"] = int(match[1])
    elif text == "output is compared":
        marks["output"] = True
    elif re.match(r"(file|not.?run|before|exits?|output|page needs)\b", text):
        raise PageError(f"{where}: unknown mark '{text}'")
    else:
        return
    marks.setdefault("where", where)


def commands_of(lines, start):
    """Returns the commands of a block, each with the output that the block shows. A command that
    ends with a backslash continues in the next line."""
    commands, continues = [], False
    for number, line in enumerate(lines, start):
        if continues:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(number, line[2:]))
        else:
            if commands:
                commands[-1].expected_lines.append(line)
            continue
        continues = line.endswith("\\")
    return commands


def add_block(page, language, lines, start, marks):
    """Adds the commands of a block, or its file, to the page. `start` is the number of the block's
    first line."""
    where = f"{page.name}:{start}"
    if language != "console":
        if any(line.startswith("$ dlrun") for line in lines):
            raise PageError(f"{where}: this block has a command, so it must be a block ```console")
        if set(marks) - {"file", "where"}:
            raise PageError(f"{where}: this mark is for a block ```console")
        named = FILE_NAME.fullmatch(lines[0]) if lines else None
        name = marks["file"][0] if "file" in marks else named[1] if named else None
        if name:
            page.files[name] = "\n".join(lines) + "\n"
        return
    if "file" in marks:
        raise PageError(f"{where}: a block ```console is no file")
    found = commands_of(lines, start)
    if "where" in marks and not found:
        raise PageError(f"{where}: this block has no command")
    before = marks.get("before this, the test executes", [])
    page.commands += [Command(start, text) for text in before]
    for command in found:
        command.expected_code = marks.get("exits", 0)
        command.why_not_run = " ".join(marks.get("not run", []))
        if "output" not in marks:
            command.expected_lines = []
    if "output" in marks and not any(command.expected_lines for command in found):
        raise PageError(f"{where}: this block shows no output to compare")
    page.commands += found


def read_page(name):
    """Returns the page with its commands and files. Raises PageError if a mark is wrong."""
    page, marks, block = Page(name), {}, None
    for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"\s*(`{3,})(\w*)\s*$", line)
        if block is not None:
            if fence and fence[1] == block[0] and not fence[2]:
                add_block(page, block[1], block[2], block[3], marks)
                marks, block = {}, None
            else:
                block[2].append(line)
        elif fence:
            block = (fence[1], fence[2], [], number + 1)
        elif MARK_LINE.fullmatch(line.strip()):
            for text in MARK.findall(line):
                if text == "page needs Slurm":
                    page.needs_slurm = True
                else:
                    apply_mark(text, marks, f"{name}:{number}")
        elif line.strip() and "where" in marks:
            raise PageError(f"{marks['where']}: no block follows this mark")
    if block is not None or "where" in marks:
        raise PageError(f"{name}: the page ends in a block, or with a mark that has no block")
    return page


def script_of(page):
    """Returns the text of commands.sh. The commands share one shell, so that `cd` and `export` last
    until the end of the page."""
    lines = ["#!/bin/bash", "# Runs the commands of a page in its folder.", "exec </dev/null",
             "failed=0", "check() { # check CODE EXPECTED NAME",
             '    if [ "$1" -eq "$2" ]; then echo "ok $3"; return; fi',
             '    failed=1; echo "not ok $3: exit code $1, expected $2"',
             "    sed 's/^/#   /' \"$HOME/.output\"", "}",
             "shows() { # shows LINE NAME",
             '    grep -qxF -e "$1" "$HOME/.output" && return',
             '    failed=1; echo "not ok $2: its output has no line: $1"',
             "    sed 's/^/#   /' \"$HOME/.output\"", "}"]
    for command in page.commands:
        if command.why_not_run:
            continue
        name = f"{page.name}:{command.line} {command.text}".replace("\n", " ")
        lines.append(f"eval {shlex.quote(command.text)} >\"$HOME/.output\" 2>&1")
        lines.append(f"check $? {command.expected_code} {shlex.quote(name)}")
        lines += [f"shows {shlex.quote(line)} {shlex.quote(name)}"
                  for line in command.expected_lines]
    return "\n".join(lines + ['exit "$failed"']) + "\n"


def prepare(page, folder):
    """Writes the files of the page and commands.sh to the folder, which is the reader's home."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(FILES_FOLDER, folder, dirs_exist_ok=True)
    for name, text in page.files.items():
        file = folder / name.removeprefix("~/")
        if not file.resolve().is_relative_to(folder.resolve()):
            raise PageError(f"{page.name}: the file {name} is outside the folder of the page")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (folder / "commands.sh").write_text(script_of(page), encoding="utf-8")


def make_commands_folder(dlrun):
    """Makes a folder with dlrun, `python` (python3) and the commands of /usr/bin and /bin except
    those of Slurm, and returns its path."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlrun-commands-"))
    for source in ("/usr/bin", "/bin"):
        for file in pathlib.Path(source).iterdir():
            link = folder / file.name
            if file.name not in SLURM_COMMANDS and not link.is_symlink():
                link.symlink_to(file)
    for name, target in (("dlrun", dlrun), ("python", folder / "python3")):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
    return folder


def run_page(page, commands_dir):
    """Runs a page and prints its lines. Returns True if all commands ended within the limit, with
    the expected exit codes and output."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="dlrun-page-"))
    try:
        prepare(page, home)
        environment = {"HOME": str(home), "PATH": str(commands_dir), "LANG": "C.UTF-8",
                       "TERM": "dumb", "SHELL": "/bin/bash", "USER": "reader"}
        with subprocess.Popen(["/bin/bash", "commands.sh"], cwd=home, env=environment,
                              start_new_session=True) as process:
            try:
                return process.wait(LIMIT_S) == 0
            except subprocess.TimeoutExpired:
                print(f"not ok {page.name}: its commands have not ended within {LIMIT_S} s",
                      flush=True)
                return False
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # processes left in the background
                except ProcessLookupError:
                    pass
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run(dlrun, page_names):
    commands_dir = make_commands_folder(pathlib.Path(dlrun).resolve())
    try:
        pages = [read_page(name) for name in page_names or all_pages()]
        runnable = [page for page in pages if not page.needs_slurm
                    and any(not command.why_not_run for command in page.commands)]
        if not runnable:
            raise PageError("no page has a command to run")
        failed = [page.name for page in runnable if not run_page(page, commands_dir)]
    finally:
        shutil.rmtree(commands_dir, ignore_errors=True)
    if failed:
        sys.exit(f"a command failed, or took too long, on {' '.join(failed)}")


def print_commands_not_run():
    """Prints the commands that no test runs, with their reasons, and the totals."""
    pages = [read_page(name) for name in all_pages()]
    commands = [(page, command) for page in pages for command in page.commands]
    left_out = [(page, command) for page, command in commands if command.why_not_run]
    for page, command in left_out:
        print(f"{page.name}:{command.line}: {command.text}\n    not run: {command.why_not_run}")
    print(f"{len(commands) - len(left_out)} commands are run, {len(left_out)} are not")


def main(words):
    if words[:1] == ["run"] and len(words) >= 2:
        run(words[1], words[2:])
    elif words == ["slurm"]:
        print("\n".join(name for name in all_pages() if read_page(name).needs_slurm))
    elif words[:1] == ["prepare"] and len(words) == 3:
        prepare(read_page(words[1]), pathlib.Path(words[2]))
    elif words == ["marks"]:
        print_commands_not_run()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PageError as error:
        sys.exit(f"page_commands: {error}")
