"""Tests dlrun's JSON Schema with an independent validator (python3-jsonschema).

usage: schema_test.py DLRUN [unittest's options]

The schema must accept every spec that dlrun accepts. It must refuse a spec if dlrun refuses it
because one value has a wrong type, range or name.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import yaml

DLRUN = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]


class CoreLoader(yaml.SafeLoader):
    """Loads YAML by the core schema of YAML 1.2, as editors' language servers do: `yes` and `1:30`
    are text."""


CoreLoader.yaml_implicit_resolvers = {}
for tag, pattern, first_characters in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
     list("-+.0123456789")),
):
    CoreLoader.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(pattern),
                                   first_characters)
CoreLoader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
CoreLoader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


def parsed(text):
    return yaml.load(text, CoreLoader)


def dlrun(*words, cwd=None):
    done = subprocess.run([DLRUN, *words], capture_output=True, text=True, cwd=cwd, timeout=60,
                          env={"PATH": "/nowhere", "HOME": "/home/user", "USER": "someone"})
    return done


SCHEMA = json.loads(dlrun("schema").stdout)
KEYS = json.loads(dlrun("explain", "--json").stdout)


def complaints(document):
    validator = jsonschema.Draft7Validator(SCHEMA)
    return [f"{list(error.absolute_path)}: {error.message}"[:300]
            for error in validator.iter_errors(document)]


def spec_text(key, value):
    """Returns the YAML text of a spec with only this key. value: YAML on one line."""
    names = key.split(".")
    indented = "".join("  " * depth + name + ":\n" for depth, name in enumerate(names[:-1]))
    return f"{indented}{'  ' * (len(names) - 1)}{names[-1]}: {value}\n"


class Schema(unittest.TestCase):
    maxDiff = None

    def messages_about(self, key, value):
        """Returns dlrun's messages about this key and its value. Leaves out messages about
        conflicts with other keys, and about other keys or files that are missing."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "x.yaml").write_text(spec_text(key, value))
            ended = dlrun("explain", "x.yaml", "--json", cwd=folder)
        self.assertIn(ended.returncode, (0, 2), ended.stderr)
        about_key = re.compile(r"^x\.yaml:\d+:\d+: error: (?:" + re.escape(key)
                               + r"\b|unknown key|" + re.escape(key.split(".")[0]) + r" is )")
        return [line for line in ended.stderr.splitlines() if about_key.match(line)
                and "exclude each other" not in line
                and "needs container" not in line and "needs health.idle_gpu_after" not in line
                and "needs environment." not in line and "needs profile.tool" not in line
                and "container.image is missing" not in line
                and "download.path is missing" not in line
                and "download.files is missing" not in line
                and "needs notify." not in line and "needs track." not in line
                and "needs train.local_steps" not in line and "needs train.device: cuda" not in line
                and "needs checkpoint.dir" not in line
                and "needs train.data.dataset: patches" not in line
                and "sweep.parameters is missing" not in line and "No such file" not in line
                and "components is missing" not in line
                and "but resources.nodes is" not in line and "the job requests none" not in line
                and "only a restarted attempt uses a spare node" not in line
                and "needs one number in resources.nodes" not in line
                and "needs retry.grow" not in line
                and "train.data.path is missing" not in line
                and "does not support the dataset" not in line]

    def test_the_schema_is_a_valid_json_schema(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)

    def test_examples_and_golden_specs_are_valid(self):
        specs = [*ROOT.glob("configs/examples/*.yaml"), *ROOT.glob("tests/golden/specs/*.yaml")]
        self.assertGreater(len(specs), 5)
        for spec in specs:
            with self.subTest(spec=spec.name):
                self.assertEqual(complaints(parsed(spec.read_text())), [])

    def test_the_schema_has_every_supported_key_with_its_help(self):
        for key in KEYS:
            with self.subTest(key=key["key"]):
                schema = SCHEMA
                for name in key["key"].split("."):
                    section = next((form for form in schema.get("anyOf", [schema])
                                    if "properties" in form), {"properties": {}})
                    schema = section["properties"].get(name, {})
                if key["supported"]:
                    self.assertIn(key["help"], schema.get("description", ""))
                else:
                    self.assertEqual(schema, {}, "the schema has a key that is not supported")

    def test_dlrun_and_the_schema_accept_the_example_of_every_key(self):
        for key in KEYS:
            if not key["supported"]:
                continue
            with self.subTest(key=key["key"]):
                self.assertTrue(key["value"], "the key has no example value")
                self.assertEqual(parsed(key["example"]),
                                 parsed(spec_text(key["key"], key["value"])),
                                 "the example differs from the key's example value")
                self.assertEqual(complaints(parsed(key["example"])), [])
                self.assertEqual(self.messages_about(key["key"], key["value"]), [])

    def test_the_schema_accepts_an_empty_value_and_a_variable(self):
        # dlrun checks the value of a variable at submission. An editor can only check its form.
        for key in KEYS:
            if not key["supported"]:
                continue
            is_list_or_map = key["type"].startswith(("map", "list of"))
            for value in ("", "null") if is_list_or_map else ("", "null", '"${USER}"'):
                with self.subTest(key=key["key"], value=value):
                    self.assertEqual(complaints(parsed(spec_text(key["key"], value))), [])

    def test_dlrun_and_the_schema_refuse_the_wrong_kind_of_value(self):
        for key in KEYS:
            if not key["supported"]:
                continue
            for value in ("[[a], [b]]", "{no such: {thing: [1]}}"):
                with self.subTest(key=key["key"], value=value):
                    self.assertNotEqual(self.messages_about(key["key"], value), [])
                    self.assertNotEqual(complaints(parsed(spec_text(key["key"], value))), [])

    def test_dlrun_and_the_schema_accept_and_refuse_the_same_values(self):
        good_and_bad_values = {
            "name": ([4711, "a.b-c_d", "x" * 64], ["two words", '""', "-x", "x" * 65, "[a]"]),
            "resources.nodes": ([1, '"2-4"', "2-4", '"7"'], [0, -1, 1.5, "four", "2-", "1000001"]),
            "resources.ntasks": ([1, '"8"', 1000000000], [0, 1000000001, "x", 2.5, "true"]),
            "resources.gpus_per_node": ([0, 4, "a100:4", "1g.5gb:2", "{count: 4}",
                                         "{type: 1g.5gb, count: 2}"],
                                        [-1, "a100", "{type: a100}", "{count: 4, kind: a}", ":4",
                                         "[4]"]),
            "resources.mem": ([0, "64G", "4GB", "500m"], ["64 G", "lots", "-1", "1.5G"]),
            "resources.time": ([10, "00:10:00", "1-12", "1-12:00:00", "90s", "1h30m", "2d",
                                "UNLIMITED", "infinite"],
                               ["soon", "10 minutes", "1:2:3:4", "30m1h", "h"]),
            "resources.exclusive": (["true", "false", "user"], ["[a]", "{a: b}"]),
            "resources.hint": (["multithread"], ["multi", "[multithread]", "true"]),
            "resources.output": (["logs/%j.out", "x"], [r"back\slash"]),
            "slurm": (["{nice: 100, mail-type: [BEGIN, END], contiguous: true}"],
                      ["{time: 5m}", "{array: 1-9}", "{Mail-Type: x}", "{wrap: x}", "a",
                       "{nice: {a: b}}"]),
            "environment.modules": (["CUDA", "[GCC/8.3.0, CUDA]", "{purge: true, load: CUDA}"],
                                    ["{purge: maybe}", "{loads: a}", "[[a]]"]),
            "environment.conda": (["custom-env", "{module: m, name: n}"], ["[a, b]", "{env: a}"]),
            "environment.uv": (["."], ["[a, b]", "{folder: a}"]),
            "environment.uenv": (["a/1:v1", "[a, b]", "{images: [a], views: [b]}"],
                                 ["{image: a}", "[[a]]"]),
            "environment.eessi": (["2023.06", '"2023.06"'], ["../x", "[a]"]),
            "health.preflight": (["disk", "[disk, {run: ./x}]", "{run: ./x}"],
                                 ["[disks]", '[{run: ""}]', "[{runs: x}]", "[run]",
                                  "[{run: a, b: c}]"]),
            "profile": (["nsys", "{tool: perf, ranks: [0], delay: 2m, for: 30s}"],
                        ["gdb", "{tool: gdb}", "{tools: nsys}", "{tool: nsys, for: soon}"]),
            "notify.on": (["[failed, hang]", "failed"], ["often", "[often]", "{a: b}"]),
            "notify.webhook": (["{secret: SLACK_URL}", "{url: 'https://h/x'}"],
                               ["{secrets: A}", "[a]"]),
            "track": (["{tensorboard: true, wandb: {project: p, mode: offline}}"],
                      ["{tensorboard: maybe}", "{mlflow: [a]}", "{wandb: {mode: later}}"]),
            "environment.vars": (['{A: 1, B: "x\\ny", C: true, D: 1.5}'],
                                 ["{1X: a}", "{DLRUN_RANK: 3}", "{UID: 1}", "{A: [1]}", "[A]"]),
            "environment.secrets": (["[A, B_1]", "[A, {name: B, file: ~/b}]"],
                                    ["A", "[1A]", "[{name: A}]", "[{name: A, value: x}]",
                                     "[DLRUN_X]"]),
            "after.ok": (["last", "[a, 12]", "12"], ["[[a]]", "{a: b}"]),
            "container.runtime": (["auto", "pyxis"], ["docker", "1"]),
            "container.mounts": (["[./a:/b, /x]",
                                  "[{source: ./a, target: /b, flags: [ro, rprivate]}]",
                                  "[/a:/b:ro+rprivate]"],
                                 ["/a:/b", '["a:/b:c:d"]', "[{source: /a, goal: /b}]",
                                  "[{target: /b}]", "[1, [2]]"]),
            "container.workdir": (["/workspace"], ["here", "[/a]"]),
            "launch.command": (["[python, -u, train.py, 12, true]", "[a, '']"],
                               ["python train.py", "[]", "[[a]]", "{a: b}"]),
            "launch.srun": (["{unbuffered: true, container-env: [A, B]}"],
                            ["{pty: true}", "{cpu-bind: cores}", "{mpi: pmix}"]),
            "train.lr": ([0.1, "1e-3", 1, '"0.5"'], ["fast", 0, -1, "[0.1]", "true"]),
            "train.optimizer": (["adam", "{name: sgd, momentum: 0.9}"],
                                ["adams", "{name: sgd, moment: 1}", "{momentum: 2}"]),
            "train.hidden": (["512", "[512, 256]"], [0, "[a]", "[1.5]"]),
            "train.data.download": ([f"[{{url: https://h/f, sha256: {'aB' * 32}}}]",
                                     f"[{{url: 'http://h:8/d/?x=1', sha256: {'a1' * 32}, file: f, "
                                     f"bytes: 12}}]", "[]"],
                                    ["https://h/f", "[https://h/f]", "[{url: https://h/f}]",
                                     f"[{{sha256: {'ab' * 32}}}]",
                                     f"[{{url: https://u:p@h/f, sha256: {'ab' * 32}}}]",
                                     f"[{{url: ftp://h/f, sha256: {'ab' * 32}}}]",
                                     "[{url: https://h/f, sha256: abc}]",
                                     f"[{{url: https://h/f, sha256: {'ab' * 32}, file: a/b}}]",
                                     f"[{{url: https://h/f, sha256: {'ab' * 32}, md5: a}}]",
                                     f"[{{url: https://h/f, sha256: {'ab' * 32}, bytes: -1}}]"]),
            "train.batch": ([32], [0, 1.5, "x"]),
            "checkpoint.every": (["500 steps", "1 epoch", "1 step"], ["often", "500", "0.5 epoch"]),
            "checkpoint.signal_before": ([120, "120s", "2m"], ["soon", -5, "1.5m"]),
            "sweep.parameters": (["{lr: [0.1, 0.01], _x1: [a]}", "{train.lr: [0.1, 1]}"],
                                 ["{train: [1]}", "{name: [a]}", "{my-name: [1]}", "{lr: 4}",
                                  "{lr: []}", "{lr: {min: 1}}"]),
            "sweep.points": (["[{lr: 1, train.batch: 2}, {lr: 2}]"], ["[{train: 1}]", "[{}]"]),
            "sweep.pack": ([1, 256], [0, 257, "all"]),
            "sweep.ask": (["[python, search.py]", "./search"], ["{a: b}", "[[a]]"]),
            "sweep.ask_timeout": (["60s", 5], ["soon"]),
            "sweep.stop_early.rule": (["median"], ["mean"]),
            "components": (["[{name: a}]",
                            "[{name: a, nodes: 2, launch: {command: [x]}, after: b}, "
                            "{name: b, role: service, ready: {http: /h, timeout: 5m}}]",
                            "[{name: a, ready: tcp, retry: {max: 1}, vars: {A: 1}}, {name: b}]"],
                           ["a", "[]", "[{nodes: 1}]", "[{name: 1a}]", "[a]"]),
            "hetjob": (["auto", "true", "false"], ["maybe", "[true]"]),
            "frobnicate": ([], ["1", "{a: b}"]),
            "resources.gpus_per_nod": ([], ["8"]),
            "launch.agentt": ([], ["true"]),
        }
        for key, (good, bad) in good_and_bad_values.items():
            for value in good:
                with self.subTest(key=key, value=value, accepted=True):
                    self.assertEqual(self.messages_about(key, value), [])
                    self.assertEqual(complaints(parsed(spec_text(key, value))), [])
            for value in bad:
                with self.subTest(key=key, value=value, accepted=False):
                    self.assertNotEqual(self.messages_about(key, value), [])
                    self.assertNotEqual(complaints(parsed(spec_text(key, value))), [])

    def test_the_schema_refuses_specs_with_wrong_names_and_types(self):
        for name in ("many", "not-a-map"):
            with self.subTest(spec=name):
                text = (ROOT / f"tests/golden/refused/{name}.yaml").read_text()
                self.assertNotEqual(complaints(parsed(text)), [])


if __name__ == "__main__":
    unittest.main()
