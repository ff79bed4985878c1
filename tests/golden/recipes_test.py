#!/usr/bin/env python3
"""Checks that each recipe of configs/examples is a valid spec at every built-in site whose nodes
are large enough.

usage: recipes_test.py DLRUN

Only a site whose nodes are too small for a recipe may refuse it, and the message must say that.
More than half of the sites must accept each recipe. The recipes name no partition, so at some sites
dlrun compares them with the nodes of a partition for small jobs.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DLRUN = sys.argv[1]
RECIPES = ["accelerate", "deepspeed", "horovod", "jax", "lightning", "megatron", "mpi4py", "ray",
           "torch-ddp", "torchrun", "trl-vllm"]
TOO_SMALL = r"but (site '[\w-]+' has at most|a node of the partition has) \d+"


def dlrun(folder, *words):
    # Without sbatch on PATH, dlrun does not ask Slurm.
    environment = {"PATH": "/nonexistent", "HOME": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run([DLRUN, *words], cwd=folder, env=environment, check=False,
                          capture_output=True, text=True, timeout=60)


class Recipes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dlrun-recipes-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in RECIPES:
            shutil.copy(ROOT / "configs/examples" / f"{name}.yaml", self.folder)
        (self.folder / "venv/bin").mkdir(parents=True)
        (self.folder / "venv/bin/activate").touch()
        (self.folder / "data").mkdir()
        for name in ("train.py", "tune.py", "sum.py", "pretrain_gpt.py"):
            (self.folder / name).touch()

    def test_each_recipe_is_valid_at_every_site_with_large_enough_nodes(self):
        sites = [site["name"] for site in json.loads(dlrun(self.folder, "site", "list",
                                                           "--json").stdout)]
        self.assertGreater(len(sites), 15)
        accepted = dict.fromkeys(RECIPES, 0)
        for site in sites:
            for recipe in RECIPES:
                ended = dlrun(self.folder, "check", f"{recipe}.yaml", "--set", f"site={site}")
                if ended.returncode == 0:
                    accepted[recipe] += 1
                    continue
                errors = [line for line in ended.stderr.splitlines() if " error: " in line]
                self.assertEqual(ended.returncode, 2, f"{recipe} at {site}: {ended.stderr}")
                for error in errors:
                    self.assertRegex(error, TOO_SMALL, f"{recipe} at {site}")
                self.assertNotEqual(errors, [], f"{recipe} at {site}: {ended.stderr}")
        for recipe, count in accepted.items():
            self.assertGreater(count, len(sites) // 2, f"{recipe} is accepted at {count} sites")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
