"""Runs dlrun's commands with --json, and compares the fields of their output with the schemas in
docs/json.

usage: json_test.py DLRUN [unittest's options]

These commands need no Slurm. tests/e2e/json_fields.bats does the same for the commands that need
Slurm. The last test fails if a command has no schema, or if a field of a schema was in no output of
the other tests. unittest runs tests in the order of their names, so the name of the last test
starts with test_z.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import json_fields  # noqa: E402 (found through the path above)

DLRUN = str(pathlib.Path(sys.argv.pop(1)).resolve())

# Schemas whose output needs Slurm or a registry: json_fields.bats and container_import.bats of
# tests/e2e compare these.
COMPARED_ELSEWHERE = {
    "container#import", "doctor", "resubmit", "submit#job", "submit#sweep", "submit#search",
    "submit#test_only", "submit#allocation", "submit#allocation_dry_run",
}
# Fields that need Slurm, in the other schemas: account.bats and rehearse.bats of tests/e2e compare
# them.
LIMIT_FIELDS = ("resource", "user", "limit_hours", "used_hours", "reserved_hours", "left_hours")
FIELDS_COMPARED_ELSEWHERE = {
    ("check", "/account/name"), ("check", "/account/limits"),
    *(("check", f"/account/limits/*/{name}") for name in LIMIT_FIELDS),
    *((command, field) for command in ("status", "top") for field in (
        "/rehearsal/rehearsal", "/rehearsal/memory", "/rehearsal/gpu", "/rehearsal/time")),
}
TIME = "2026-01-02T03:04:05.678Z"


def checked_line(values):
    """Returns a line in the form of common/json_lines.h."""
    text = json.dumps(values, separators=(",", ":"))[:-1]
    return f'{text},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'


def event(kind, attempt=0, **values):
    return checked_line({"t": TIME, "event": kind, "attempt": attempt, **values})


def schema_names():
    """Yields the names of all schemas. A schema of several objects gives one name NAME#DEFINITION
    for each of them."""
    for name in json_fields.names():
        whole = json_fields.document(name)
        refs = [one["$ref"] for one in whole.get("anyOf", [])]
        own = [f"{name}#{ref.rpartition('/')[2]}" for ref in refs if ref.startswith("#")]
        yield from own or [name]


class Fields(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.seen = {}
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        cls.write_spec("plain", name="plain",
                       resources={"ntasks": 2, "gpus": 2, "cpus_per_task": 1, "time": "5m"},
                       launch={"preset": "plain", "command": ["bash", "-c", "exit $DLRUN_RANK"]})

    @classmethod
    def write_spec(cls, file, **keys):
        (cls.path / f"{file}.yaml").write_text(json.dumps(keys))  # JSON is YAML

    def dlrun(self, *words, code=0, path="/usr/bin:/bin"):
        env = {"PATH": path, "HOME": str(self.path), "USER": "someone",
               "DLRUN_CONFIG": str(self.path / "config")}
        done = subprocess.run([DLRUN, *words], capture_output=True, text=True, cwd=self.path,
                              timeout=100, env=env)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done

    def run_and_compare(self, name, *words, **options):
        """Runs a command with --json, compares its output with a schema, and returns the output."""
        value = json.loads(self.dlrun(*words, "--json", **options).stdout)
        self.assertEqual(json_fields.complaints(name, value), [], words)
        found = json_fields.seen_fields(json_fields.schema_of(name), value)
        self.seen.setdefault(name, set()).update(found)
        return value

    def make_run_directory(self, name, *events, **files):
        """Creates a run directory with these events and files. In the name of a file, _json stands
        for .json."""
        run = self.path / "records" / name
        run.mkdir(parents=True)
        (run / "events.jsonl").write_text("".join(events))
        for file, text in files.items():
            (run / file.replace("_json", ".json")).write_text(text)
        return run

    def make_eventful_run(self):
        """Writes a run with components, a hang, a restart, a failure, and samples of its ranks."""
        components = [{"name": "server", "role": "service", "nodes": 1, "ranks": 1, "after": []},
                      {"name": "trainer", "role": "main", "nodes": 1, "ranks": 2, "after": []}]
        groups = [{"ranks": "1", "count": 1, "hosts": "n1", "frames": ["wait", "main"]}]
        columns = ["rank", "node", "cpu", "rss_bytes", "gpu", "gpu_used_bytes", "gpu_total_bytes",
                   "step", "work_ms", "lag", "slow", "age_s"]
        return self.make_run_directory(
            "full",
            event("claimed", job="4711", cluster="", host="n1", pid=7, again=False),
            event("components", components=components),
            event("started", ranks=3, lead="10.0.0.1:1", argv=["srun"]),
            event("missing", ranks=[2], seconds=600.0),
            event("warning", message="a log is full", rank=1, host="n1"),
            event("autopsy", ranks=3, odd=1, groups=groups),
            event("attempt_end", code=79, reason="hang", cause="hang", seconds=9.5),
            event("restarting", cause="hang", left=2, by="lead", exclude=[]),
            event("components", 1, components=components),
            event("started", 1, component="trainer", ranks=2, lead="10.0.0.1:1", argv=["srun"]),
            event("joined", 1, component="trainer", ranks=2, hosts="n1", seconds=1.0),
            event("progress", 1, component="trainer", step=3, steps=9, epoch=1, epochs=2, loss=0.5,
                  accuracy=0.25, samples_per_s=100.5),
            event("result", 1, component="trainer", test_accuracy=0.5),
            event("rank_failed", 1, component="trainer", rank=1, host="n1", pid=8, code=137,
                  signal="SIGKILL", error=""),
            event("attempt_end", 1, code=137, reason="rank_failed", cause="failure", seconds=9.5),
            event("ended", 1, state="failed", code=137, message="rank 1 failed"),
            ranks_json=json.dumps({"time": TIME, "attempt": 1, "ranks": 2, "nodes": ["n1"],
                                   "columns": columns,
                                   "rows": [[0, 0, 1.5, 1024, 50, 10, 20, 3, 2.5, 1, True, 2],
                                            [1, 0, 1.5, 1024, 50, 10, 20, 3, 2.5, 0, False, 2]]}))

    def test_commands_about_real_runs_print_the_documented_fields(self):
        run = self.run_and_compare("run", "run", "plain.yaml", code=5)
        self.assertEqual(run["first_failed"]["rank"], 1)
        # The object of `run` is that of `status`.
        self.assertEqual(self.run_and_compare("status", "status"), run)
        self.run_and_compare("ls", "ls")
        self.run_and_compare("wait", "wait", "last", code=5)
        self.run_and_compare("top", "top", "--once")
        self.run_and_compare("du", "du")
        waiting = self.path / "waiting"
        self.write_spec("long", name="long", launch={"preset": "plain", "command": [
            "bash", "-c", f"touch {waiting}; until [[ -e {waiting}.go ]]; do sleep 0.05; done"]})
        process = subprocess.Popen([DLRUN, "run", "long.yaml"], cwd=self.path,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={"PATH": "/usr/bin:/bin", "HOME": str(self.path)})
        try:
            for _ in range(600):
                if waiting.exists():
                    break
                self.assertIsNone(process.poll(), "the run ended early")
                try:
                    process.wait(0.05)
                except subprocess.TimeoutExpired:
                    pass
            self.assertTrue(waiting.exists(), "the run did not start within 30 s")
            # A run that still runs is not deleted.
            self.run_and_compare("prune", "prune", "--older-than", "0s", "--dry-run")
            kept = self.run_and_compare("rm", "rm", "long", "plain", "--yes", code=2)
            self.assertEqual([one["name"] for one in kept["kept"]], ["long"])
            self.assertEqual([one["deleted"] for one in kept["runs"]], [True])
        finally:
            (self.path / "waiting.go").touch()
            process.wait(60)

    def test_components_restarts_failures_and_samples_have_the_documented_fields(self):
        run = self.make_eventful_run()
        for command in ("status", "top"):
            found = self.run_and_compare(command, command, str(run))
            self.assertEqual(found["first_failed"]["component"], "trainer")
        self.assertEqual(found["rank_samples"][0]["mark"], "slow")
        ranks = [row["rank"] for row in found["rank_samples"]]
        self.assertEqual(ranks, [0, 1])
        for most, shown in (("0", ranks), ("1", ranks[:1])):  # 0: no limit
            limited = self.run_and_compare("top", "top", str(run), "-n", most)
            self.assertEqual([row["rank"] for row in limited["rank_samples"]], shown)

    def test_points_of_a_sweep_have_the_documented_fields_and_keep_their_results(self):
        sweep = self.make_run_directory("swept", sweep_json=json.dumps(
            {"keys": ["train.lr"], "arrays": 1, "max_parallel": None, "points": [
                {"array": 0, "task": 0, "values": ["0.1"]}]}))
        (sweep / "events.jsonl").unlink()
        point = sweep / "array-0" / "0"
        shutil.copytree(self.make_run_directory(
            "point", event("claimed", job="12_0", cluster="", host="n1", pid=7, again=False),
            event("progress", step=3, steps=9, epoch=1, epochs=2, loss=0.5, accuracy=0.25,
                  samples_per_s=100.5),
            event("result", test_accuracy=0.5),
            event("ended", state="completed", code=0, message="")), point)
        array = {"token": "", "state": "submitted", "cluster": "", "job": "12", "argv": [],
                 "time": TIME}
        (sweep / "array-0" / "submission.json").write_text(json.dumps(array))
        (point / "submission.json").write_text(json.dumps({"task": 0}))
        for command in ("status", "top"):
            counts = self.run_and_compare(command, command, str(sweep))["point_counts"]
            self.assertEqual((counts["all"], counts["completed"]), (1, 1))
        points = self.run_and_compare("sweep", "sweep", str(sweep))
        self.assertEqual(points[0]["values"], {"train.lr": 0.1})
        self.assertEqual(points[0]["progress"]["loss"], 0.5)
        self.assertEqual(points[0]["result"], {"test_accuracy": 0.5})
        self.assertEqual(points[0]["result_of"], str(point))
        # The point is resubmitted. Until the new run has a result, the earlier result stays.
        again = self.make_run_directory(
            "again", event("claimed", job="99", cluster="", host="n1", pid=7, again=False),
            event("progress", step=1, steps=9, loss=0.7),
            event("ended", state="cancelled", code=143, message=""))
        (point / "resubmitted").write_text(str(again))
        points = self.run_and_compare("sweep", "sweep", str(sweep))
        self.assertEqual(points[0]["path"], str(again))
        self.assertEqual(points[0]["progress"]["loss"], 0.7)
        self.assertEqual(points[0]["result"], {"test_accuracy": 0.5})
        self.assertEqual(points[0]["result_of"], str(point))

    def test_bad_nodes_and_waiting_messages_have_the_documented_fields(self):
        bad = {"node": "n1", "cluster": "", "reason": "lost", "run": "r", "job": "1",
               "since": 1_700_000_000, "until": 32_000_000_000}
        (self.path / "bad").write_text(checked_line(bad))
        found = self.run_and_compare("nodes", "nodes", "--file", "bad")
        self.assertEqual(found["nodes"][0]["node"], "n1")
        queue = self.make_run_directory("told", event("ended", state="failed", code=1,
                                                      message="")) / "notify"
        queue.mkdir(mode=0o700)
        notice = {"event": "failed", "run": "told", "job": "1", "cluster": "", "time": TIME,
                  "attempt": 0, "message": "rank 1 failed"}
        (queue / "1.command").write_text(json.dumps({"notice": notice, "command": ["true"]}))
        self.run_and_compare("notify", "notify", str(queue.parent))

    def test_keys_and_values_of_explain_have_the_documented_fields(self):
        self.run_and_compare("explain#keys", "explain")
        self.run_and_compare("explain#values", "explain", "plain.yaml")

    def test_checks_and_dry_runs_have_the_documented_fields(self):
        self.write_spec("swept", name="swept", resources={"time": "5m"},
                        launch={"preset": "plain", "command": ["echo", "{lr}"]},
                        sweep={"parameters": {"lr": [1, 2]}})
        self.write_spec("served", name="served", resources={"time": "5m"}, components=[
            {"name": "server", "role": "service", "nodes": 1,
             "launch": {"command": ["sleep", "1"]}},
            {"name": "trainer", "nodes": 1, "launch": {"command": ["true"]}}])
        for name in ("plain", "swept", "served"):  # without Slurm's commands
            self.run_and_compare("check", "check", f"{name}.yaml", path="/nowhere")
            self.run_and_compare("submit#dry_run", "submit", f"{name}.yaml", "--dry-run",
                                 path="/nowhere")

    def test_scripts_of_runs_on_this_machine_have_the_documented_fields(self):
        plain = self.run_and_compare("run", "run", "plain.yaml", "--dry-run")
        # This test is in no allocation, so `allocation` is null in both outputs.
        here = self.run_and_compare("run", "run", "plain.yaml", "--here", "--dry-run")
        for shown in (plain, here):
            self.assertEqual(list(shown), ["run", "allocation", "script"])
            self.assertIsNone(shown["allocation"])
            self.assertTrue(shown["script"].startswith("#!"))

    def test_sites_hosts_and_images_have_the_documented_fields(self):
        sites = self.path / "config" / "sites"
        sites.mkdir(parents=True)
        (sites / "lab.yaml").write_text(json.dumps(
            {"help": "a site", "environment": {"A": "1"}, "fabric": {"infiniband_ports": 1},
             "partitions": {"gpu": {"gpus_per_node": 4, "fabric": {"gpu_link": "nvlink"}}}}))
        shown = self.run_and_compare("site#show", "site", "show", "lab")
        self.assertEqual([one["name"] for one in shown["partitions"]], ["gpu"])
        self.assertIn(shown, self.run_and_compare("site#list", "site", "list"))
        hosts = self.path / "config" / "hosts"
        hosts.mkdir()
        (hosts / "near.yaml").write_text("ssh: near.invalid\n")
        self.assertEqual(len(self.run_and_compare("host", "host", "list")), 1)
        images = self.path / ".cache" / "dlrun" / "images"
        images.mkdir(parents=True)
        digest = "ab" * 32
        (images / f"{digest}.sqsh").write_bytes(b"hsqs")
        (images / "reg#team+tiny:1.json").write_text(json.dumps(
            {"image": "docker://reg#team/tiny:1", "digest": digest, "imported": TIME}))
        self.assertEqual(len(self.run_and_compare("container#list", "container", "list")), 1)

    def test_measurements_of_bench_have_the_documented_fields(self):
        # The backend mpi is left out, because there is no mpirun in PATH.
        self.run_and_compare("bench#collectives", "bench", "collectives", "--backends", "shm,mpi",
                             "--ranks", "2", "--sizes", "1K", path="/nowhere")
        report = 'echo "{\\"final\\":true,\\"samples_per_s\\":$((100 + DLRUN_WORLD_SIZE))}"'
        self.write_spec("rated", name="rated", launch={"preset": "plain", "command": [
            "bash", "-c", f'[[ $DLRUN_RANK != 0 ]] || {report} >"$DLRUN_PROGRESS"; '
                          '[[ $DLRUN_WORLD_SIZE != 3 ]]']})
        self.run_and_compare("bench#scaling", "bench", "scaling", "rated.yaml", "--local",
                             "1,2,3,4")

    def test_z_every_command_has_a_schema_and_every_field_was_seen(self):
        completion = self.dlrun("completion", "bash").stdout
        commands = {line.split(")")[0].strip() for line in completion.splitlines()
                    if "options='" in line and "--json" in line}
        self.assertEqual(commands, set(json_fields.names()))
        self.assertLess(COMPARED_ELSEWHERE, set(schema_names()),
                        "a name in COMPARED_ELSEWHERE is no schema")
        for schema_name in schema_names():
            if schema_name in COMPARED_ELSEWHERE:
                continue
            self.assertIn(schema_name, self.seen)
            whole = json_fields.document(schema_name.partition("#")[0])
            if "$ref" in whole or "$ref" in whole.get("items", {}):
                continue  # the objects of another command, whose fields are counted there
            expected = set(json_fields.fields(json_fields.schema_of(schema_name)))
            elsewhere = {field for name, field in FIELDS_COMPARED_ELSEWHERE if name == schema_name}
            self.assertEqual(expected - self.seen.get(schema_name, set()), elsewhere, schema_name)


if __name__ == "__main__":
    unittest.main()
