"""Tests the completions as a user would: types a line and TAB into a real shell on a
pseudo-terminal. For fish, the tests call `complete -C`, which prints the words that TAB would
offer.

usage: completion_test.py DLRUN SHELL [unittest's options]     SHELL: bash, zsh or fish
"""

import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

DLRUN = pathlib.Path(sys.argv.pop(1)).resolve()
SHELL = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 60

START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "PS1='$ '; bind 'set bell-style none'; bind 'set page-completions off'; bind 'set "
             "completion-query-items 0';"
             f" source {ROOT}/completions/dlrun.bash"),
    "zsh": (["zsh", "-f", "-i"],
            "PS1='$ '; unsetopt zle_bracketed_paste prompt_sp beep; autoload -Uz compinit && "
            f"compinit -u -D; source {ROOT}/completions/_dlrun"),
}


def environment(home):
    return {"HOME": str(home), "XDG_STATE_HOME": f"{home}/state",
            "XDG_CONFIG_HOME": f"{home}/config", "TERM": "dumb",
            "PATH": f"{DLRUN.parent}:/usr/bin:/bin", "INPUTRC": "/dev/null", "LC_ALL": "C.UTF-8",
            "COLUMNS": "200"}


class Terminal:
    """A shell on a pseudo-terminal. The constructor waits for the shell's prompt: before it comes,
    the terminal itself would interpret control characters. Afterwards, the shell reads the typed
    bytes in order, so no test has to wait for an echo."""

    def __init__(self, home, setup=""):
        argv, start = START[SHELL]
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(home)
            os.execvpe(argv[0], argv, environment(home))
        self.pid = pid
        self.send(f"{start}; {setup or ':'}; printf 'rea''dy\\n'\n")
        self.read_until("ready\r\n", then="$ ")

    def send(self, text):
        os.write(self.fd, text.encode())

    def read_until(self, mark, then=""):
        """Reads until the output contains `mark`, and `then` somewhere after it. Returns all this
        output."""
        text, deadline = "", time.monotonic() + LIMIT_SECONDS
        while mark not in text or then not in text.split(mark)[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                expected = f"{mark!r} and then {then!r}" if then else repr(mark)
                raise AssertionError(f"no {expected} within {LIMIT_SECONDS} s; the terminal "
                                     f"shows:\n{text}")
            text += os.read(self.fd, 65536).decode(errors="replace")
        return text

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Completion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        (self.home / "state/dlrun/runs").mkdir(parents=True)
        (self.home / "state/dlrun/runs/digits-20260101-120000-abcd").write_text("{}")
        (self.home / "config/dlrun/sites").mkdir(parents=True)
        (self.home / "config/dlrun/sites/mylab.yaml").write_text("help: Ours.\n")
        (self.home / "data-folder").mkdir()

    def words_after_tab(self, typed, setup=""):
        """Types `typed` and TAB, and returns the words that the command line then has. fish must
        offer exactly one word. setup: a shell command that runs before; unused for fish."""
        if SHELL == "fish":
            done = subprocess.run(["fish", "--no-config",
                                   "-c",
                                   f"source {ROOT}/completions/dlrun.fish; complete -C $argv[1]",
                                   typed],
                                  capture_output=True, text=True, cwd=self.home,
                                  env=environment(self.home), timeout=LIMIT_SECONDS)
            offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
            self.assertEqual(len(offered), 1, (typed, offered, done.stderr))
            return typed.split()[:-1] + offered
        terminal = Terminal(self.home, setup)
        try:
            # Goes to the line's start, inserts printf, and presses Enter: the shell itself prints
            # the words.
            terminal.send(typed + "\t" + "\x01printf '<%s>' \x05; printf 'do''ne\\n'\n")
            text = terminal.read_until("done\r\n")
        finally:
            terminal.close()
        return re.findall("<([^<>]*)>", text[text.rindex("<dlrun>"):])

    def words_after_two_tabs(self, typed):
        """Types `typed` and two TABs. Returns all words that the terminal shows: the offered words
        and the typed line."""
        terminal = Terminal(self.home)
        try:
            terminal.send(typed + "\t\t" + "\x15printf 'do''ne\\n'\n")
            return terminal.read_until("done\r\n").split()
        finally:
            terminal.close()

    def check_completion(self, typed, expected, setup=""):
        self.assertEqual(" ".join(self.words_after_tab(typed, setup)).strip(), expected)

    def test_commands_and_options_are_completed(self):
        self.check_completion("dlrun subm", "dlrun submit")
        self.check_completion("dlrun submit --dry", "dlrun submit --dry-run")

    def test_keys_after_set_are_completed(self):
        self.check_completion("dlrun submit x.yaml --set resources.hi",
                              "dlrun submit x.yaml --set resources.hint=")
        self.check_completion("dlrun check x.yaml --set environment.va",
                              "dlrun check x.yaml --set environment.vars.")

    def test_values_after_set_are_completed(self):
        for typed, value in (("resources.hint=multi", "multithread"),
                             ("container.writable=t", "true"), ("launch.preset=tr", "trainer"),
                             ("site=test", "testbed"), ("site=myl", "mylab"),
                             ("train.data.path=data-f", "data-folder")):
            with self.subTest(typed=typed):
                key = typed.split("=")[0]
                words = self.words_after_tab(f"dlrun run x.yaml --set {typed}")
                self.assertEqual(words[-1].rstrip("/"), f"{key}={value}")

    def test_names_of_runs_of_keys_and_of_shells_are_completed(self):
        self.check_completion("dlrun status dig", "dlrun status digits-20260101-120000-abcd")
        self.check_completion("dlrun explain resources.partit", "dlrun explain resources.partition")
        self.check_completion("dlrun completion fi", "dlrun completion fish")

    def test_subcommands_and_the_words_after_them_are_completed(self):
        self.check_completion("dlrun site sh", "dlrun site show")
        self.check_completion("dlrun site show myl", "dlrun site show mylab")
        self.check_completion("dlrun container imp", "dlrun container import")
        self.check_completion("dlrun bench coll", "dlrun bench collectives")
        for typed in ("dlrun container import data-f", "dlrun bench scaling data-f"):
            with self.subTest(typed=typed):
                self.assertEqual(self.words_after_tab(typed)[-1].rstrip("/"), "data-folder")

    def test_no_name_of_a_run_or_a_site_is_executed(self):
        (self.home / "state/dlrun/runs/evil$(touch${IFS}canary)").write_text("{}")
        (self.home / "config/dlrun/sites/evil$(touch${IFS}canary).yaml").write_text("help: Ours.\n")
        self.words_after_tab("dlrun status evi")
        if SHELL == "bash":
            self.words_after_tab("dlrun run x.yaml --set site=evi")
            self.words_after_tab("dlrun site show evi")
        self.assertFalse((self.home / "canary").exists())

    @unittest.skipUnless(SHELL == "bash", "only for bash")
    def test_bash_lists_all_keys_of_a_section(self):
        offered = self.words_after_two_tabs("dlrun submit x.yaml --set train.")
        for key in ("train.lr=", "train.batch=", "train.optimizer.name="):
            self.assertIn(key, offered)
        self.assertNotIn("resources.nodes=", offered)

    @unittest.skipUnless(SHELL == "bash", "only for bash")
    def test_bash_completes_values_if_an_equals_sign_does_not_end_a_word(self):
        self.check_completion("dlrun run x.yaml --set resources.hint=multi",
                              "dlrun run x.yaml --set resources.hint=multithread",
                              "COMP_WORDBREAKS=${COMP_WORDBREAKS//=/}")


if __name__ == "__main__":
    unittest.main()
