"""Compares the lists of docs/stability.md with dlrun and with the files of real runs.

usage: stability_test.py DLRUN [unittest's options]

From version 1.0.0 on, a name may be added to the page, but none may be removed or renamed before
2.0.0. The page has its own copies of all names, so that a name which disappears from the code does
not disappear from the page.
"""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import json_fields  # noqa: E402 (found through the path above)

DLRUN = str(pathlib.Path(sys.argv.pop(1)).resolve())
PAGE = (ROOT / "docs" / "stability.md").read_text()
HINT = ("first the names that docs/stability.md promises, then the names that dlrun has. "
        "Add a new name to the page. A name that the page has must not disappear before 2.0.0.")

COMMON_OPTIONS = {"-h", "--help", "-v", "--verbose", "--log-file"}
# Stable files that the runs of this test do not have, because they need Slurm, git, a profiler or a
# hang. The end-to-end tests of these features use them.
NOT_HERE = {
    "slurm-JOBID.out", "logs/attempt-K/COMPONENT/rank-NNNN.log", "tree.patch",
    "profile/attempt-K/", "autopsy/attempt-K/",
}


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M)[1]


def bullets(title):
    """Returns {head: [words in backticks]} of the list in a section. The head is without its
    backticks."""
    found = {}
    for item in re.findall(r"^- (.*(?:\n  .*)*)", section(title), re.M):
        head, _, words = item.partition(":")
        found[head.strip("`")] = re.findall(r"`([^`]+)`", words)
    return found


def first_column(text):
    """Returns the first column of the Markdown table in a text, without the header row."""
    rows = re.findall(r"^\| *([^|]+?) *\|", text, re.M)
    return [row.strip("`") for row in rows[1:] if not row.startswith("-")]


def matching_patterns(path, patterns):
    """Returns the patterns of the page that match `path`, a path in a run directory."""
    words = {"NNNN": "[0-9][0-9][0-9][0-9]", "JOBID": "*", "COMPONENT": "*"}
    found = set()
    for pattern in patterns:
        glob = re.sub("NNNN|JOBID|COMPONENT", lambda match: words[match[0]], pattern)
        glob = glob.replace("attempt-K", "attempt-[0-9]").replace("array-K", "array-[0-9]")
        if fnmatch.fnmatchcase(path, glob + "*" if glob.endswith("/") else glob):
            found.add(pattern)
    return found


class Stability(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)

    def dlrun(self, *words, search_path="/usr/bin:/bin"):
        done = subprocess.run([DLRUN, *words], capture_output=True, text=True, cwd=self.path,
                              timeout=100, env={"PATH": search_path, "HOME": str(self.path)})
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done.stdout

    def check_same_names(self, promised, existing):
        self.assertEqual(sorted(promised), sorted(existing), HINT)

    def test_keys_are_those_of_the_page(self):
        promised = [f"{head}.{key}" if head != "the whole run" else key
                    for head, keys in bullets("Keys of a spec").items() for key in keys]
        existing = [row["key"] for row in json.loads(self.dlrun("explain", "--json"))
                    if row["supported"]]
        self.check_same_names(promised, existing)

    def test_commands_and_options_are_those_of_the_page(self):
        existing = {}
        for line in self.dlrun("completion", "bash").splitlines():
            if found := re.match(r"\s+([a-z-]+)\) options='([^']*)'(.*)", line):
                verbs = re.search(r"verbs='([^']*)'", found[3])
                words = set(found[2].split()) - COMMON_OPTIONS
                existing[found[1]] = sorted(words | set(verbs[1].split() if verbs else []))
        self.assertGreater(len(existing), 30)
        promised = {head: sorted(words) for head, words in bullets("Commands").items()}
        self.assertEqual(promised, existing, HINT)

    def test_exit_codes_are_those_of_the_page_and_of_cli_output_md(self):
        header = (ROOT / "launcher" / "view" / "exit_code.h").read_text()
        existing = re.findall(r"^  kExit\w+ = (\d+),", header, re.M)
        self.assertIn("141", existing)
        self.check_same_names(first_column(section("Exit codes")), existing)
        page = (ROOT / "cli" / "OUTPUT.md").read_text()
        listed = re.search(r"^## Exit codes\n(.*?)^## ", page, re.S | re.M)[1]
        self.check_same_names(first_column(listed), existing)

    def test_fields_of_json_are_those_of_the_page(self):
        """tests/golden/json_test.py compares the schemas with the outputs."""
        existing = {}
        for name in json_fields.names():
            whole = json_fields.document(name)
            own = [f"{name}#{one['$ref'].rpartition('/')[2]}" for one in whole.get("anyOf", [])
                   if one["$ref"].startswith("#")]
            refers_to_others = any("$ref" in one for one in (whole, whole.get("items", {}),
                                                             *whole.get("anyOf", [])))
            for schema_name in own or ([] if refers_to_others else [name]):
                schema = json_fields.schema_of(schema_name)
                existing[schema_name] = sorted(schema.get("items", schema)["properties"])
        promised = {head: sorted(words) for head, words in bullets("Fields of `--json`").items()}
        self.assertEqual(promised, existing, HINT)

    def test_events_are_those_of_the_page(self):
        header = (ROOT / "common" / "run_events.h").read_text()
        self.check_same_names(bullets("Files of a run directory")["events"],
                              re.findall(r'kKind = "(\w+)"', header))

    def test_fields_of_messages_to_a_webhook_are_those_of_both_pages_about_them(self):
        page = (ROOT / "docs" / "notify.md").read_text()
        fields = re.findall(r'"(\w+)"', re.search(r"^\| any other \|.*$", page, re.M)[0])
        self.check_same_names(bullets("Messages to a webhook")["message"], fields)

    def test_version_of_the_citation_is_that_of_the_project(self):
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
        self.assertLessEqual({"cff-version", "message", "title", "authors", "license"},
                             set(citation))
        project = re.search(r"project\(dlrun VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
        self.assertEqual(citation["version"], project[1])
        self.assertTrue(self.dlrun("--version").startswith(f"dlrun {project[1]}"))

    def test_the_catalog_and_docs_editors_have_the_same_patterns_for_names_of_spec_files(self):
        """Editors recognise a spec by these patterns. Compares the settings for each editor."""
        names = json.loads((ROOT / "docs" / "catalog-entry.json").read_text())["fileMatch"]
        page = (ROOT / "docs" / "editors.md").read_text()
        code = dict(re.findall(r"^```(\w+)\n(.*?)^```", page, re.S | re.M))
        (schema, settings), = json.loads(code["json"])["yaml.schemas"].items()
        self.assertEqual(settings, names)
        self.assertEqual(re.findall(r"'([^']*dlrun\.yaml)'", code["lua"]), names)
        self.assertIn(f"$schema={schema}\n", code["yaml"])
        for file in ("dlrun.yaml", "mnist.dlrun.yaml"):
            self.assertTrue(any(fnmatch.fnmatchcase(file, name) for name in names), file)
            (self.path / file).write_text('{"launch": {"command": ["true"]}}')
            self.dlrun("check", file, search_path="/nowhere")
        for file in ("resolved.yaml", "juwels.yaml", "my-dlrun.yaml"):
            self.assertFalse(any(fnmatch.fnmatchcase(file, name) for name in names), file)

    def run_spec(self, name, **keys):
        """Runs a spec on this machine, and returns its run directory."""
        (self.path / f"{name}.yaml").write_text(json.dumps({"name": name, **keys}))
        return pathlib.Path(json.loads(self.dlrun("run", f"{name}.yaml", "--json"))["path"])

    def train(self):
        """Trains for more and more epochs, until a run takes so long that the trainer has written
        metrics during an epoch, which it does once a second. Only these metrics have `lr`. Returns
        the run directory and the names of all metrics."""
        for epochs in (16, 64, 256, 1024, 4096):
            run = self.run_spec(
                "trained", resources={"ntasks": 2}, track={"tensorboard": True},
                train={"data": {"dataset": "digits", "train_samples": 256, "test_samples": 32},
                       "model": "mlp", "hidden": [64], "epochs": epochs, "batch": 8,
                       "trace_steps": 1})
            lines = (run / "metrics.jsonl").read_text().splitlines()
            names = set().union(*(json.loads(line) for line in lines))
            if "lr" in names:
                break
        return run, names

    def test_files_of_runs_are_on_the_page(self):
        trained, metrics = self.train()
        plain = self.run_spec("plain", launch={"preset": "plain", "command": [
            "bash", "-c", "until [[ -e $DLRUN_RUN/ranks.json ]]; do sleep 0.1; done"]})
        self.dlrun("report", "trained")
        stable = first_column(section("Files of a run directory"))
        internal = bullets("Files of a run directory")["internal"]
        seen = set()
        for run in (trained, plain):
            for file in run.rglob("*"):
                if not file.is_file():
                    continue
                path = file.relative_to(run).as_posix()
                found = matching_patterns(path, stable)
                seen |= found
                self.assertTrue(found or matching_patterns(path, internal),
                                f"{path}: {HINT}")
        self.assertEqual(sorted(set(stable) - seen), sorted(NOT_HERE),
                         "first the stable files that these runs do not have, then NOT_HERE")
        ranks = json.loads((plain / "ranks.json").read_text())
        self.assertLessEqual({"time", "attempt", "ranks", "nodes", "columns", "rows"}, set(ranks))
        self.check_same_names(bullets("Files of a run directory")["columns"], ranks["columns"])
        submission = json.loads((trained / "submission.json").read_text())
        self.assertLessEqual({"state", "cluster", "job", "time"}, set(submission))
        for line in (trained / "events.jsonl").read_text().splitlines():
            self.assertEqual(list(json.loads(line))[:3], ["t", "event", "attempt"])
        self.check_same_names(bullets("Files of a run directory")["metrics"], metrics)
        # resolved.yaml is a spec. Without Slurm's commands, `check` does not ask Slurm.
        self.dlrun("check", str(trained / "resolved.yaml"), search_path="/nowhere")


if __name__ == "__main__":
    unittest.main()
