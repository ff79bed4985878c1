#!/usr/bin/env python3
"""Tests page_commands.py with pages of a few lines. If page_commands.py found no commands, or
overlooked a wrong mark, the tests of the real pages would always pass, and nobody would notice.

usage: page_commands_test.py
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import page_commands  # noqa: E402


class Pages(unittest.TestCase):
    def setUp(self):
        self.root = page_commands.ROOT
        folder = tempfile.TemporaryDirectory(prefix="dlrun-pages-")
        self.addCleanup(folder.cleanup)
        page_commands.ROOT = pathlib.Path(folder.name)
        self.addCleanup(setattr, page_commands, "ROOT", self.root)

    def write_and_read_page(self, text):
        (page_commands.ROOT / "page.md").write_text(text, encoding="utf-8")
        return page_commands.read_page("page.md")

    def run_page(self, text):
        """Runs the page, and returns the exit code and the lines that commands.sh printed."""
        page = self.write_and_read_page(text)
        home = page_commands.ROOT / "home"
        page_commands.prepare(page, home)
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        ended = subprocess.run(["/bin/bash", "commands.sh"], cwd=home, env=environment, check=False,
                               capture_output=True, text=True)
        return ended.returncode, ended.stdout.splitlines()

    def test_commands_have_their_line_numbers_and_output_is_no_command(self):
        page = self.write_and_read_page(
            "# T\n\n```console\n$ true\nsome output\n$ echo a \\\n    b\n```\n")
        self.assertEqual([(c.line, c.text) for c in page.commands],
                         [(4, "true"), (6, "echo a \\\n    b")])

    def test_commands_share_a_shell_and_each_code_is_compared(self):
        code, lines = self.run_page(
            "```console\n$ export A=1; mkdir d; cd d\n$ test $A = 1 -a -d ../d\n```\n"
            "<!-- exits with 3 -->\n```console\n$ (exit 3)\n```\n")
        self.assertEqual((code, [line.split()[0] for line in lines]), (0, ["ok"] * 3))
        code, lines = self.run_page("```console\n$ echo why; false\n$ true\n```\n")
        self.assertEqual(code, 1)
        self.assertEqual(lines, ["not ok page.md:2 echo why; false: exit code 1, expected 0",
                                 "#   why", "ok page.md:3 true"])
        self.assertEqual(self.run_page("<!-- exits with 2 -->\n```console\n$ true\n```\n")[0], 1)

    def test_output_is_compared_only_on_request(self):
        block = "```console\n$ echo one; echo two\none\nthree\n```\n"
        self.assertEqual(self.run_page(block)[0], 0)
        code, lines = self.run_page("<!-- output is compared -->\n" + block)
        self.assertEqual(code, 1)
        self.assertIn("not ok page.md:3 echo one; echo two: its output has no line: three", lines)
        self.assertEqual(self.run_page("<!-- output is compared -->\n" +
                                       block.replace("three", "two"))[0], 0)

    def test_commands_of_a_block_marked_as_not_run_are_left_out_of_the_script(self):
        page = self.write_and_read_page(
            "<!-- not run: it waits -->\n```console\n$ sleep inf\n```\n")
        self.assertEqual(page.commands[0].why_not_run, "it waits")
        self.assertNotIn("sleep", page_commands.script_of(page))

    def test_files_of_the_page_are_written_and_none_outside_its_folder(self):
        code, _ = self.run_page(
            "```yaml\n# a.yaml\nname: a\n```\n<!-- file: b.txt -->\n```text\nb\n```\n"
            "```yaml\n# ~/.config/c.yaml\nc: 1\n```\n"
            "<!-- before this, the test executes: grep -q b b.txt -->\n"
            "```console\n$ grep name a.yaml && test -f ~/.config/c.yaml\n```\n")
        self.assertEqual(code, 0)
        page = self.write_and_read_page("<!-- file: ../../evil -->\n```text\nx\n```\n")
        with self.assertRaisesRegex(page_commands.PageError, "outside"):
            page_commands.prepare(page, page_commands.ROOT / "home")

    def test_wrong_marks_are_errors(self):
        for text, message in (
                ("<!-- not run -->\n```console\n$ x\n```\n", "needs a text"),
                ("<!-- not run:  -->\n```console\n$ x\n```\n", "needs a text"),
                ("<!-- not run: see tests/e2e/no.bats -->\n```console\n$ x\n```\n", "not exist"),
                ("<!-- exits with five -->\n```console\n$ x\n```\n", "unknown mark"),
                ("<!-- not run: a reason -->\n\ntext\n```console\n$ x\n```\n", "no block follows"),
                ("<!-- not run: a reason -->\n```yaml\na: 1\n```\n", "is for a block"),
                ("<!-- file: a -->\n```console\n$ x\n```\n", "is no file"),
                ("<!-- not run: a reason -->\n```console\noutput\n```\n", "has no command"),
                ("<!-- output is compared -->\n```console\n$ x\n```\n", "shows no output"),
                ("```bash\n$ dlrun ls\n```\n", "must be a block"),
                ("```console\n$ x\n", "ends in a block")):
            with self.assertRaisesRegex(page_commands.PageError, message, msg=text):
                self.write_and_read_page(text)

    def test_slurm_is_hidden_from_pages_that_do_not_need_it(self):
        folder = page_commands.make_commands_folder(pathlib.Path("/bin/true"))
        self.addCleanup(subprocess.run, ["rm", "-r", folder], check=True)
        self.assertTrue((folder / "dlrun").exists() and (folder / "bash").exists())
        for name in page_commands.SLURM_COMMANDS:
            self.assertFalse((folder / name).is_symlink(), name)
        self.assertTrue(self.write_and_read_page("<!-- page needs Slurm -->\n").needs_slurm)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
