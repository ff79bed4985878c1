"""Tests `dlrun explain`: the description of a key, and the origin of every value of a spec.

usage: explain_test.py DLRUN [unittest's options]
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

DLRUN = str(pathlib.Path(sys.argv.pop(1)).resolve())

SITE = """\
gpu_style: gres
container_runtime: pyxis
environment: {NCCL_IB_DISABLE: 1}
defaults:
  resources: {partition: small}
"""

SPEC = """\
name: origins
site: lab
resources:
  nodes: 2
  time: ${LIMIT}
environment:
  vars: {ONE: "1", "LONG": "a\\tb"}
launch:
  preset: torch
  command: [python, -u, train.py]
"""


class Explain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "sites").mkdir()
        (self.path / "sites" / "lab.yaml").write_text(SITE)
        (self.path / "exp.yaml").write_text(SPEC)

    def dlrun(self, *words):
        env = {"PATH": "/nowhere", "HOME": self.folder.name, "DLRUN_CONFIG": self.folder.name,
               "LIMIT": "1h", "SBATCH_ACCOUNT": "proj"}
        return subprocess.run([DLRUN, *words], capture_output=True, text=True, cwd=self.path,
                              timeout=60, env=env)

    def rows_by_key(self, *words):
        done = self.dlrun("explain", "exp.yaml", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {row["key"]: row for row in json.loads(done.stdout)}

    def test_a_name_inside_a_map_is_refused_and_the_error_shows_the_key_of_the_map(self):
        for name, key in (("slurm.mail-type", "slurm"),
                          ("environment.vars.A.B", "environment.vars"),
                          ("launch.srun.mpi", "launch.srun")):
            with self.subTest(name=name):
                done = self.dlrun("explain", name)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"'{name}' is not a key, but a name in the map '{key}'; see "
                              f"`dlrun explain {key}`", done.stderr)
        self.assertIn("did you mean 'resources.nodes'?",
                      self.dlrun("explain", "resources.node").stderr)

    def test_explain_of_launch_preset_lists_the_presets_with_their_meaning(self):
        (self.path / "presets").mkdir()
        (self.path / "presets" / "mine.yaml").write_text("help: My own way.\nprogram: command\n")
        done = self.dlrun("explain", "launch.preset")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^PRESET +MEANING$")
        self.assertRegex(done.stdout, r"(?m)^torch +torch\.distributed with init_method env://")
        self.assertRegex(done.stdout, r"(?m)^mine +My own way\.$")

    def test_values_of_variables_named_like_secrets_are_masked(self):
        (self.path / "exp.yaml").write_text(SPEC.replace(
            'vars: {ONE: "1",', 'vars: {WANDB_API_KEY: SEKRIT-1, ONE: "1",'))
        words = ("--set", "environment.vars.HF_TOKEN=SEKRIT-2")
        rows = self.rows_by_key(*words)
        for name in ("WANDB_API_KEY", "HF_TOKEN"):
            self.assertEqual(rows[f"environment.vars.{name}"]["value"], "***")
        self.assertEqual(rows["environment.vars.ONE"]["value"], "1")
        self.assertEqual(rows["environment.vars.HF_TOKEN"]["origin"]["source"],
                         "environment.vars.HF_TOKEN=...")
        for more in ((), ("--json",)):
            done = self.dlrun("explain", "exp.yaml", *words, *more)
            self.assertNotIn("SEKRIT", done.stdout + done.stderr)

    def test_each_value_has_its_origin(self):
        rows = self.rows_by_key("--set", "resources.nodes=4", "--set", "resources.gpus_per_node=2",
                                "--set", "container.image=/a.sqsh",
                                "--set", "container.writable=true")
        site = str(self.path / "sites" / "lab.yaml")
        expected = {
            "name": ("origins", "file", "exp.yaml", 1, 7),
            "resources.nodes": (4, "set", "resources.nodes=4", 1, 17),
            "resources.time": ("01:00:00", "file", "exp.yaml", 5, 9),
            "resources.partition": ("small", "site", site, 5, 26),
            "resources.account": ("proj", "env", "SBATCH_ACCOUNT", None, None),
            "environment.vars.ONE": ("1", "file", "exp.yaml", 7, 15),
            "environment.vars.LONG": ("a\tb", "file", "exp.yaml", 7, 28),
            "launch.command": (["python", "-u", "train.py"], "file", "exp.yaml", 10, 12),
            "environment.vars.NCCL_IB_DISABLE": ("1", "site", site, None, None),
            "resources.tasks_per_node": (2, "default", "resources.gpus_per_node", None, None),
            "resources.gres": ("gpu:2", "default", "resources.gpus_per_node", None, None),
            "resources.cpus_per_task": ("the node's allocated CPUs, shared evenly", "default", None,
                                        None, None),
            "container.runtime": ("pyxis", "site", site, None, None),
            "container.mount_home": (False, "default", None, None, None),
            "container.writable": (True, "set", "container.writable=true", 1, 20),
            "launch.agent": (True, "default", None, None, None),
        }
        for key, (value, kind, source, line, column) in expected.items():
            with self.subTest(key=key):
                self.assertEqual(rows[key]["value"], value)
                self.assertEqual(rows[key]["origin"],
                                 {"kind": kind, "source": source, "line": line, "column": column})
        self.assertEqual(rows["environment.vars.MASTER_ADDR"]["origin"]["kind"], "preset")
        self.assertTrue(rows["resources.output"]["value"].endswith("/runs/origins-%j.out"))
        # Keys that nobody sets, and keys without effect on this job, are left out.
        for key in ("resources.mem", "train.lr", "retry.on", "launch.mpi"):
            self.assertNotIn(key, rows)
        without_options = self.rows_by_key()
        self.assertEqual(without_options["resources.tasks_per_node"]["origin"],
                         {"kind": "default", "source": None, "line": None, "column": None})
        self.assertNotIn("container.mount_home", without_options)

    def test_the_table_has_one_row_for_each_value_of_json(self):
        done = self.dlrun("explain", "exp.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
        self.assertEqual(rows[0], ["KEY", "VALUE", "ORIGIN"])
        self.assertIn(["resources.time", '"01:00:00"', "exp.yaml:5:9"], rows)
        self.assertIn(["resources.account", "proj", "env SBATCH_ACCOUNT"], rows)
        self.assertEqual(len(rows) - 1, len(self.rows_by_key()))

    def test_the_error_for_a_wrong_spec_names_the_line_and_column(self):
        (self.path / "exp.yaml").write_text("name: x\nresources: {nodez: 2}\n")
        done = self.dlrun("explain", "exp.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("exp.yaml:2:13: error: unknown key 'nodez' in resources; did you mean "
                      "'nodes'?", done.stderr)

    def test_the_origin_of_an_inherited_value_is_the_file_that_sets_it(self):
        (self.path / "mine.yaml").write_text("base: exp.yaml\nresources: {nodes: 8}\n")
        done = self.dlrun("explain", "mine.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        values = {row["key"]: (row["value"], row["origin"]["source"])
                  for row in json.loads(done.stdout)}
        self.assertEqual(values["resources.nodes"], (8, "mine.yaml"))
        self.assertEqual(values["resources.time"], ("01:00:00", "exp.yaml"))
        self.assertNotIn("base", values)

    def test_explain_of_a_key_shows_its_help_type_range_default_directive_and_example(self):
        text = self.dlrun("explain", "resources.tasks_per_node").stdout
        for words in ("Each node has this number of ranks.", "type", "whole number", "1 to 1000000",
                      "gpus_per_node, or 1",
                      "#SBATCH --ntasks-per-node=...", "resources: {tasks_per_node: 4}"):
            self.assertIn(words, text)

    def test_a_section_lists_its_keys_and_explain_alone_lists_all_keys(self):
        section = self.dlrun("explain", "checkpoint").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in section][:3],
                         ["KEY", "checkpoint.dir", "checkpoint.every"])
        everything = json.loads(self.dlrun("explain", "--json").stdout)
        self.assertGreater(len(everything), 90)
        for row in everything:
            if row["supported"]:
                for field in ("help", "type", "example"):
                    self.assertTrue(row[field], (row["key"], field))

    def test_an_unknown_key_suggests_the_nearest_key_and_a_missing_file_gives_exit_code_6(self):
        done = self.dlrun("explain", "resources.node")
        self.assertEqual((done.returncode, done.stderr), (2, "dlrun: error: there is no key "
                                                          "'resources.node'; did you mean "
                                                          "'resources.nodes'?\n"))
        done = self.dlrun("explain", "gpus_per_node")
        self.assertIn("did you mean 'resources.gpus_per_node'?", done.stderr)
        self.assertEqual(self.dlrun("explain", "no-such.yaml").returncode, 6)


if __name__ == "__main__":
    unittest.main()
