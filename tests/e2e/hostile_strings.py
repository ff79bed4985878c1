#!/usr/bin/python3
"""Puts more than 300 hostile strings into every key of the spec, through dlrun and the real sbatch,
and through `dlrun run` without Slurm.

usage: hostile_strings.py --keys FILE [--all] [--turn N] [--rest URL]

Half of the strings are generated: each way out of a quotation combined with each way to run a
command. Each key gets every sixth string of STRINGS and every 24th generated string; jobs get
every fourth string, and `dlrun run` gets every second one. With --rest, the address of slurmrestd,
each key gets every 40th string, and jobs get every 12th. --all uses all strings everywhere. --turn
shifts the selection; its default is the day of the year, so that each key gets each string within
some weeks. The output shows the value of --turn, with which the same selection can be repeated.

Runs as an ordinary user on the testbed, in an empty folder that the nodes see. Each string in each
key is either refused (exit 2, an error with file, line and column, nothing written) or arrives byte
for byte:

  - in an #SBATCH line: as sbatch itself read it. `sbatch -v --test-only` prints each option with
    its value, or an error that refuses the option;
  - as an option of srun, a module, an environment or a path of the prologue: as the whole word that
    bash passes on in the job; a recorder, which is first on PATH, writes the word to a file;
  - where dlrun reads a number, a size, a time, a flag or a word of a fixed list: every string is
    refused, and a valid value of that key is accepted;
  - where only dlrun itself reads the value, at the submission: in the spec that the script
    contains;
  - in environment.vars and launch.command: in the environment and argv of the program, in a real
    job behind the real srun and the agent, and on this machine by `dlrun run`.

The strings try to create a file whose name starts with "canary"; no such file may exist at the end.
Prints the first 60 failures and the number of all failures. Exits with 1 if there is any.
"""

import argparse
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time

import yaml

WORK_DIR = os.path.abspath(".")
TOUCH = f"touch {WORK_DIR}/canary"

STRINGS = (
    # special in a shell
    "'", '"', "\\", "`", "$", "!", "!!", "#", "&", ";", "|", "<", ">", "(", ")", "{", "}", "[", "]",
    "*", "?", "~", "^", "%", "=", ",", ":", "@", "+",
    f"$({TOUCH}1)", f"`{TOUCH}2`", f"; {TOUCH}3", f"&& {TOUCH}4", f"| {TOUCH}5",
    f"' ; {TOUCH}6 ; '", f'" ; {TOUCH}7 ; "', f"\\' ; {TOUCH}8 #",
    f"\\'\" ; {TOUCH}9", f"$'\\n{TOUCH}10'", f"x\n{TOUCH}11", f"\n{TOUCH}12\n",
    f"\\'\"\n{TOUCH}13\n#", f"x\r\n{TOUCH}14", f"'\n{TOUCH}15\n'", f'"\n{TOUCH}16\n"',
    f"x #\n{TOUCH}17", f"${{IFS}}{TOUCH}18", f"<({TOUCH}19)", f">({TOUCH}20)", f"$(({TOUCH}21))",
    f"a[$({TOUCH}22)]", f"EOF\n{TOUCH}23\nEOF\n", f"){TOUCH}24(",
    f"}} ; {TOUCH}25 ; {{", f"& {TOUCH}26 &", f"|| {TOUCH}27 ||", f"\\\n{TOUCH}28",
    f"$(\n{TOUCH}29\n)", f"`\n{TOUCH}30\n`",
    "$HOME", "$$", "$0", "$@", "$#", "$?", "$!", "${HOME}x", "~root", "*.yaml", "{a,b}", "{1..9}",
    "?(x)", "[a-z]*", "a b", " a", "a ", "  ", "a  b", "\\n",
    "\\\\", "\\x41", "%j", "%%", "%s%s%n", "a%20b", "a=b", "A=b", "=a", "a=", "--", "-", "-n",
    "--wrap=true", "--export=NONE", "-p other", "--chdir=/", "-e",
    # special in YAML, JSON, formatters, sbatch's tokenizer and terminals
    "null", "true", "no", "1e3", "0x10", "1_000", "&a", "*a", "!!str x", "- x", "a: b", "{rank}",
    "{{rank}}", "{", "}}", "{nosuchfield}", "{0}", "%(x)s",
    "#SBATCH --uid=0", "a#b", "a #b", "#", "\\#", "\\ ", '\\"', "\\'", "'a'b", '"a"b', "a\\",
    "a\\\\", 'a"b\'c`d$e\\f', "a,b", "a,,b", "a:b:c", "a;b", "a|b",
    "\t", "a\tb", "a\vb", "\a", "\b", "\x1b[31mred\x1b[0m", "\x1b]0;title\a", "\x01", "\x7f",
    "a\rb",
    # characters beyond ASCII, and long strings
    "gr\u00fc\u00df dich", "\u65e5\u672c\u8a9e", "\U0001f40d", "e\u0301", "\u202e abc", "\u00a0",
    "\u200b", "\ufeff", "\u2028", "\uff07", "'\u00e9'",
    "a" * 65, "a" * 300, "/" * 300, "../" * 40 + "etc/passwd", "/etc/passwd", "..", ".", "/", "//",
    "/dev/null", "/proc/self/environ", "a" * 5000, "'" * 1000, "$(" * 500,
    "x" * 65536,
)

# Each generated string ends a quotation, a line, a substitution or a block, runs a command, and
# then makes the rest of the line valid again. %d is the number of the string.
GENERATED = tuple(
    way_out + command % (100 + number) + way_back
    for number, (way_out, command, way_back) in enumerate(
        (way_out, command, way_back)
        for way_out, way_back in (("'", "'"), ('"', '"'), ("\\'", "\\'"), ("'\"'", "'\"'"),
                                  ("$'", "'"), ("\n", "\n"), ("\\\n", "#"), (")", "("),
                                  ("}", "{"), ("]]", "[["),
                                  ("EOF\n", "\nEOF"), ("#\n", "\n#"), (" #", ""),
                                  ("\u2028", "\u2028"))
        for command in (f"; {TOUCH}%d ;", f"$({TOUCH}%d)", f"`{TOUCH}%d`", f"|{TOUCH}%d|",
                        f"&&{TOUCH}%d&&", f"\n{TOUCH}%d\n", f"<({TOUCH}%d)", f"$(({TOUCH}%d))",
                        f"${{x:-$({TOUCH}%d)}}",
                        f"{{;{TOUCH}%d;}}", f" --wrap='{TOUCH}%d' ")))
ALL_STRINGS = STRINGS + GENERATED

LIST_KEYS = {"environment.modules.load", "environment.modules.use", "container.mounts"}
MAP_KEYS = {"slurm": "comment", "environment.vars": "HOSTILE", "launch.srun": "comment"}
BASE = {"name": "hostile", "resources.time": "5m", "launch.command": ["true"]}


def set_key(spec, key, value):
    parts = key.split(".")
    for part in parts[:-1]:
        if not isinstance(spec.get(part), dict):
            spec[part] = {}
        spec = spec[part]
    spec[parts[-1]] = value


def write_spec(values, file):
    spec = {}
    for key, value in values.items():
        set_key(spec, key, value)
    with open(file, "w", encoding="utf-8") as out:
        # JSON is YAML. A "${" of the spec is written as its documented escape.
        out.write(json.dumps(spec, ensure_ascii=False).replace("\x7f", "\\u007f")
                  .replace("${", "$${").replace("\u2028", "\\u2028").replace("\ufeff", "\\ufeff"))


def value_with(key, text):
    """Returns a value of the key's type that contains the text."""
    if key in LIST_KEYS:
        return [text]
    if key in MAP_KEYS:
        return {MAP_KEYS[key]: text}
    if key == "launch.command":
        return ["true", text]
    if key == "stage":
        return [{"from": text, "to": "$TMPDIR/data"}]
    return text


def run(argv, **keywords):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **keywords)


class Failures:
    def __init__(self):
        self.lines = []

    def add(self, key, text, what):
        self.lines.append(f"{key} = {text[:80]!r}: {what}")


def render(key, text, suffix, failures):
    """Renders a spec in which the key has the text. Returns the script's file, whose name has the
    suffix; None if dlrun refused the text. Adds a failure if the refusal is wrong."""
    file, script = f"s{suffix}.yaml", f"s{suffix}.sh"
    values = dict(BASE)
    values[key] = value_with(key, text)
    if key.startswith("container.") and key != "container.image":
        values["container.image"] = "./image.sqsh"
    if key.startswith("container."):
        values.setdefault("container.runtime", "pyxis")
    if key == "environment.conda.module":
        values["environment.conda.name"] = "custom"
    if key == "environment.pixi.environment":
        values["environment.pixi.project"] = "."
    if key == "environment.uenv.views":
        values["environment.uenv.images"] = ["image"]
    if key == "download.path":
        values["download.files"] = [{"url": "https://example.org/file", "sha256": "ab" * 32}]
    if key == "hetjob":
        values["components"] = [{"name": "a"}, {"name": "b"}]
    if key == "submit.url":
        values["submit.via"] = "slurmrestd"
    if key.startswith("retry.grow."):
        for other, value in (("retry.max", 2), ("resources.mem", "64G"), ("retry.grow.mem", 1.5),
                             ("retry.grow.max", "128G")):
            values.setdefault(other, value)
    if key.startswith("train.") or key.startswith("checkpoint."):
        values.update({"launch.preset": "trainer", "train.data.dataset": "digits"}
                      if key not in ("launch.preset", "train.data.dataset") else {})
        values.pop("launch.command", None)
    write_spec(values, file)
    done = run(["dlrun", "render", file, "-o", script])
    os.unlink(file)
    if done.returncode == 0:
        return script
    stderr = done.stderr.decode("utf-8", "replace")
    if done.returncode != 2:
        failures.add(key, text, f"exit {done.returncode}: {stderr[:300]}")
    # The value of `base` is the path of another spec, which dlrun reads. The error may be there.
    error_file = r".*" if key == "base" else re.escape(file)
    if not re.search(rf"{error_file}:\d+:\d+: ", stderr, re.S):
        failures.add(key, text, f"refused without file, line and column: {stderr[:300]}")
    if any(ord(c) < 32 and c not in "\n\t" or ord(c) == 127 for c in stderr):
        failures.add(key, text, "the refusal sends control characters to the terminal")
    if os.path.exists(script):
        failures.add(key, text, "refused, and a script was written")
    return None


def sbatch_options(script):
    """Returns the options that sbatch read, as bytes by name, and the finished process."""
    done = run(["sbatch", "-v", "--test-only", script])
    options = {}
    is_inside = False
    for line in done.stderr.split(b"\n"):
        if b"defined options" in line:
            is_inside = b"end of" not in line
            continue
        found = re.match(rb"sbatch: ([a-z-]+) +: (.*)$", line, re.S)
        if is_inside and found:
            options[found.group(1).decode()] = found.group(2)
    return options, done


def directive_of(script, key):
    """Returns the name of the option that `key` sets if the script has an #SBATCH line with this
    option, else None."""
    with open(script, "rb") as text:
        for line in text.read().split(b"\n"):
            if line.startswith(b"#SBATCH --"):
                name = re.match(rb"#SBATCH --([a-z-]+)", line).group(1).decode()
                if key == "slurm" and name == "comment":
                    return name
                if KEY_OPTIONS.get(key) == "--" + name:
                    return name
    return None


def read_keys(path):
    """Reads the key table from `path`, one file with the text of all files of launcher/spec/keys.
    Returns two maps of the keys that can be set: from a key to its option, and from a key to its
    format, such as kPath."""
    rows = re.findall(r'\{\.path = "([^"]+)"(, FIELD)?(.*?)\.help',
                      open(path, encoding="utf-8").read(), re.S)
    options = {}
    formats = {}
    for key, field, rest in rows:
        if field:
            option = re.search(r'\.option = \w+\("([^"]+)"', rest)
            options[key] = option.group(1) if option else None
            form = re.search(r"\.format = Format::(k\w+)", rest)
            formats[key] = form.group(1) if form else None
    return options, formats


def path_of(text):
    """Returns the path that dlrun derives from a path in a spec: below the spec's folder, without
    "." and "..". Removes a second slash at the start, which only Python keeps."""
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    return re.sub("^//+", "/", os.path.abspath(text))


def derived_value(key, text):
    """Returns the value that dlrun derives from a text: the text itself, or a path."""
    form = KEY_FORMATS.get(key)
    is_path = (form in ("kPath", "kPathPattern") or (form == "kMaybePath" and "/" in text)
               or (form == "kImage" and re.match(r"\.?\.?/|~/", text))
               or key in ("container.mounts", "stage"))
    return path_of(text) if is_path else text


def is_derived_value(key, text, arrived, before=b"", after=b""):
    """Returns True if `arrived` is the value that dlrun derives from the text, between `before` and
    `after`."""
    if arrived == before + derived_value(key, text).encode() + after:
        return True
    # A path of slashes alone is the root folder, with any number of slashes.
    return (not text.strip("/") and arrived.startswith(before) and arrived.endswith(after)
            and not arrived[len(before) : len(arrived) - len(after)].strip(b"/"))


RECORDER = """#!/bin/bash
# Replaces srun, conda and other commands in a job: writes its arguments to a file.
printf '%s\\0' "$(basename "$0")" "$@" >> "$RECORD"
"""

DUMP = ("import json,os,sys; json.dump([sys.argv[1:], os.environb.get(b'HOSTILE', "
        "b'?').decode('utf-8','surrogateescape')], open(os.environ['DUMP'], 'w'))")


def wait_for_jobs(limit_s):
    """Waits until the queue is empty, and returns True. Returns False if no job ends for limit_s
    seconds."""
    deadline, fewest = time.time() + limit_s, None
    while time.time() < deadline:
        job_count = len(run(["squeue", "-h", "--me"]).stdout.splitlines())
        if job_count == 0:
            return True
        if fewest is None or job_count < fewest:
            deadline, fewest = time.time() + limit_s, job_count
        time.sleep(0.5)
    return False


def check_directives(keys, uses_all, failures):
    """Renders each key with its strings, and checks the values that become directives and those
    that dlrun reads at the submission. Returns the numbers of accepted and of refused strings, and
    the accepted pairs (key, string) that these checks do not cover."""
    accepted = refused = 0
    without_directive = []
    for key_index, key in enumerate(keys):
        for number, text in enumerate(ALL_STRINGS):
            stride = 6 if number < len(STRINGS) else 24
            if (number + key_index + TURN[0]) % stride != 0 and not uses_all:
                continue
            script = render(key, text, number, failures)
            if script is None:
                refused += 1
                continue
            accepted += 1
            if key in PARSED_BY_DLRUN or (key in BOOLEAN_KEYS and text != "true"):
                failures.add(key, text, "accepted, although no such string is valid")
            syntax_check = run(["bash", "-n", script])
            if syntax_check.returncode != 0:
                failures.add(key, text, f"not a shell script: {syntax_check.stderr[:200]}")
            name = directive_of(script, key)
            if key.startswith("after."):
                check_after(key, text, failures)
            elif key in READ_AT_SUBMISSION:
                if not is_derived_value(key, text, value_in_script(script, key)):
                    failures.add(key, text,
                                 f"the script contains {value_in_script(script, key)!r:.200}")
            elif name is None:
                without_directive.append((key, text))
            else:
                options, done = sbatch_options(script)
                arrived = options.get(name)
                if name in OPTIONS_WITHOUT_VALUE:
                    pass
                elif arrived is None:
                    refusal = done.stderr.decode("utf-8", "replace")
                    if (done.returncode == 0
                        or not re.search(r"error|invalid|Invalid|Unable|unrecognized", refusal)):
                        failures.add(key, text, f"sbatch did not show --{name} and did not refuse: "
                                     f"{refusal[-300:]}")
                    elif "Invalid time specification" in refusal and f"): {text}\n" not in refusal:
                        failures.add(key, text, "sbatch refuses a time, but not this one: "
                                     f"{refusal[-300:]}")
                elif key in PARSED_BY_SLURM:
                    pass
                elif key == "resources.gres":
                    # sbatch prefixes each entry of this list with "gres:", from 23.11 on "gres/".
                    if arrived not in (",".join(kind + one for one in text.split(",")).encode()
                                       for kind in ("gres:", "gres/")):
                        failures.add(key, text, f"sbatch read {arrived[:120]!r}")
                elif not is_derived_value(key, text, arrived):
                    failures.add(key, text, f"sbatch read {arrived[:120]!r}")
            os.unlink(script)
    return accepted, refused, without_directive


def check_after(key, text, failures):
    """Uses the string as the name of a run, which submit looks up. No such run exists, so submit
    must fail with an error. Does nothing if the string is a job id."""
    if re.fullmatch(r"[0-9]+(_[0-9]+)?", text):
        return
    write_spec({**BASE, key: [text]}, "after.yaml")
    done = run(["dlrun", "submit", "after.yaml"])
    if done.returncode not in (2, 3, 6) or b"error:" not in done.stderr:
        failures.add(key, text,
                     f"exit {done.returncode}: {done.stderr.decode('utf-8', 'replace')[:300]}")


def value_in_script(script, key):
    """Returns a key's value from the resolved spec that the script contains for `dlrun submit`."""
    with open(script, encoding="utf-8") as text:
        value = yaml.safe_load("".join(line[3:] for line in text if line.startswith("#| ")))
    for part in key.split("."):
        value = value[part]
    return value.replace("$${", "${").encode()


def check_valid_values(failures):
    """Checks that keys which refuse every string accept a valid value."""
    for key, valid_value in PARSED_BY_DLRUN.items():
        script = render(key, valid_value, "-valid", failures)
        if script is None:
            failures.add(key, str(valid_value),
                         "a valid value is refused, so the refusals of this key prove nothing")
        else:
            os.unlink(script)


OPTIONS_WITHOUT_VALUE = {"exclusive", "requeue", "no-requeue"}
# dlrun parses the values of these keys: numbers, sizes, times, words of a fixed list. No test
# string is a valid value; the value here is valid.
PARSED_BY_DLRUN = {
    "resources.time": "90s", "resources.mem": "64G", "resources.mem_per_cpu": "4G",
    "resources.mem_per_gpu": "32G", "resources.nodes": "2-4", "resources.gpus": "8",
    "resources.gpus_per_node": "a100:4", "resources.gpus_per_task": "1",
    "resources.hint": "nomultithread", "resources.threads_per_core": "1", "site": "generic",
    "launch.preset": "mpi", "container.runtime": "enroot", "checkpoint.every": "500 steps",
    "checkpoint.signal_before": "60s", "submit.via": "sbatch", "retry.grow.mem": "1.5",
    "retry.grow.max": "128G", "profile.tool": "perf", "submit.url": "unix:/run/slurmrestd/socket",
    "components": [{"name": "a"}, {"name": "b", "after": "a"}]}
BOOLEAN_KEYS = {"hetjob", "environment.modules.purge", "container.writable", "container.mount_home",
                "container.remap_root", "container.entrypoint"}
# Keys that dlrun reads when the script is submitted; the script's shell does not.
READ_AT_SUBMISSION = {"submit.token_file", "download.path"}
# Slurm has a grammar of its own for the values of these keys. It shows the values in another form,
# or refuses them silently, so for these keys the test can only detect executed commands.
PARSED_BY_SLURM = {"resources.signal", "resources.distribution", "resources.exclusive"}
# slurmrestd reports the values of these keys in another form: as numbers, compressed node lists,
# and paths with filled-in patterns.
NORMALISED = PARSED_BY_SLURM | set(PARSED_BY_DLRUN) | {
    "resources.output", "resources.error", "resources.begin", "resources.gres",
    "resources.nodelist", "resources.exclude", "resources.licenses"}


def write_job_spec(number, text, more=()):
    values = {"name": f"h{number}", "resources.time": "5m", "resources.partition": "batch",
              "launch.preset": "plain",
              "launch.command": ["python3", f"{WORK_DIR}/dump.py", text],
              "environment.vars": {"HOSTILE": text, "DUMP": f"{WORK_DIR}/dump-{number}.json"}}
    values.update(more)
    write_spec(values, f"j{number}.yaml")
    return f"j{number}.yaml"


def check_dumps(expected, failures):
    for number, text in expected:
        try:
            with open(f"dump-{number}.json", encoding="utf-8") as dumped:
                argv, value = json.load(dumped)
        except (OSError, ValueError) as error:
            failures.add("job", text, f"no result: {error}")
            continue
        if argv != [text]:
            failures.add("launch.command", text, f"the program got {argv!r:.200}")
        if value != text:
            failures.add("environment.vars", text, f"the program got {value!r:.200}")


def check_local(failures, stride=2):
    """Checks one of every `stride` strings without Slurm: `dlrun run`, one after another. Returns
    the number of runs that completed."""
    expected = []
    for number, text in list(enumerate(ALL_STRINGS))[TURN[0] % stride :: stride]:
        file = write_job_spec(number, text)
        if os.path.exists(f"dump-{number}.json"):
            os.unlink(f"dump-{number}.json")
        done = run(["dlrun", "run", file])
        if done.returncode == 0:
            expected.append((number, text))
        elif text != ":" or b"launch.command: srun reads" not in done.stderr:
            failures.add("dlrun run", text,
                         f"exit {done.returncode}: {done.stderr.decode('utf-8', 'replace')[:300]}")
    check_dumps(expected, failures)
    return len(expected)


def texts_of_job(url, job):
    """Returns every text in slurmrestd's description of a job. DLRUN_TEST_REST_API is the version
    of the API, such as v0.0.45."""
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(url.removeprefix("unix:"))
    connection.request("GET", f"/slurm/{os.environ['DLRUN_TEST_REST_API']}/job/{job}")
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return [value for value in answer["jobs"][0].values() if isinstance(value, str)]


def check_rest(url, uses_all, failures):
    """Checks the job descriptions that slurmrestd gets in place of #SBATCH lines: each string is
    refused by dlrun or by Slurm, or arrives byte for byte. Then checks environment.vars and
    launch.command in real jobs. No job may be lost: as many jobs wait as were submitted."""
    through_rest = {"submit.via": "slurmrestd", "submit.url": url}
    keys = [key for key, option in KEY_OPTIONS.items() if key == "slurm"
            or (key.startswith("resources.") and option and key != "resources.clusters")]
    accepted = refused = 0
    for key_index, key in enumerate(keys):
        for number, text in enumerate(ALL_STRINGS):
            if not uses_all and (number + key_index + TURN[0]) % 40 != 0:
                continue
            values = {**BASE, "resources.begin": "now+1hour", **through_rest}
            values[key] = value_with(key, text)
            write_spec(values, "r.yaml")
            done = run(["dlrun", "submit", "r.yaml", "--json"])
            if done.returncode in (2, 3):
                refused += 1
                if b"error:" not in done.stderr:
                    failures.add(key, text, f"refused without a message: {done.stderr[:300]!r}")
                continue
            if done.returncode != 0:
                failures.add(key, text, f"exit {done.returncode}: "
                             f"{done.stderr.decode('utf-8', 'replace')[:300]}")
                continue
            accepted += 1
            # Without a database Slurm stores no QOS.
            if (key in NORMALISED or key == "resources.qos"
                or KEY_OPTIONS.get(key) in ("--exclusive", "--requeue")):
                continue
            texts = texts_of_job(url, json.loads(done.stdout)["job"])
            if key == "resources.account":
                text = text.lower()  # Slurm converts accounts to lower case.
            if (text not in texts and not any(one.startswith("dlrun:") and one.endswith(" " + text)
                                              for one in texts)):
                failures.add(key, text, f"slurmrestd does not report it: {texts!r:.300}")
    waiting = len(run(["squeue", "-h", "--me"]).stdout.splitlines())
    if waiting != accepted or accepted < 15:
        failures.add("jobs", "", f"{accepted} were submitted, {waiting} wait")
    run(["scancel", "--me"])
    if not wait_for_jobs(60):
        failures.add("jobs", "", "jobs are still in the queue; none has ended for 60 s")
    jobs = check_jobs(failures, through_rest, 1 if uses_all else 12)
    print(f"slurmrestd, {len(keys)} keys: {accepted} accepted, {refused} refused; {jobs} jobs for "
          "environment.vars and launch.command", flush=True)


def check_jobs(failures, more=(), stride=4):
    """Checks one of every `stride` strings in real jobs behind the real srun and agent:
    environment.vars and launch.command must arrive in the program's environment and argv. Returns
    the number of submitted jobs."""
    expected = []
    with open("dump.py", "w", encoding="ascii") as out:
        out.write(DUMP)
    for number, text in list(enumerate(ALL_STRINGS))[TURN[0] % stride :: stride]:
        file = write_job_spec(number, text, more)
        done = run(["dlrun", "submit", file, "--json"])
        if done.returncode == 2 and text == ":" and b"launch.command: srun reads" in done.stderr:
            continue  # The text is srun's own separator.
        if done.returncode == 2:
            # These two keys accept every byte.
            failures.add("environment.vars + launch.command", text,
                         f"refused: {done.stderr.decode('utf-8', 'replace')[:300]}")
        elif done.returncode != 0:
            failures.add("environment.vars + launch.command", text,
                         f"exit {done.returncode}: {done.stderr.decode('utf-8', 'replace')[:300]}")
        else:
            expected.append((number, text))
    if not wait_for_jobs(60):
        failures.add("jobs", "", "jobs are still in the queue; none has ended for 60 s")
    check_dumps(expected, failures)
    return len(expected)


def options_of_lead(index):
    """Returns the options in the script's array dlrun_lead, as bash expands them, each with a NUL
    at its end."""
    with open(f"w{index}.sh", encoding="ascii") as wrapper:
        script = wrapper.read().split("bash ")[-1].strip()
    with open(script, "rb") as text:
        array = re.search(rb"^dlrun_lead=\(\n.*?^\)$", text.read(), re.M | re.S)
    if not array:
        return b""
    return subprocess.run(["bash", "-s"],
                          input=array.group() + b"\nprintf '%s\\0' \"${dlrun_lead[@]}\"\n",
                          capture_output=True, check=True).stdout


def check_prologue(pairs, failures):
    """Checks the keys that become neither a directive nor a part of the program: a recorder gets
    the words that bash passes on in a job. Returns the number of submitted jobs."""
    os.makedirs("bin", exist_ok=True)
    for name in ("srun", "conda", "spack", "pixi", "readlink"):
        with open(f"bin/{name}", "w", encoding="ascii") as out:
            out.write(RECORDER)
        os.chmod(f"bin/{name}", 0o755)
    submitted = 0
    for index, (key, text) in enumerate(pairs):
        script = render(key, text, 100000 + index, failures)
        if script is None:
            continue
        record = f"{WORK_DIR}/record-{index}"
        # lead starts the recorder in place of srun. Functions record the words of module, conda,
        # `.` (which sources an environment) and `cd` (which enters a project).
        header = "".join(f"{name}() {{ printf '%s\\0' {name} \"$@\" >> {record}; }}; export -f "
                         f"{name}\n" for name in ("module", "conda", ".", "cd"))
        wrapper = (f"#!/bin/bash\nexport RECORD={record} PATH={WORK_DIR}/bin:$PATH\n{header}bash "
                   f"{WORK_DIR}/{script}\n")
        with open(f"w{index}.sh", "w", encoding="ascii") as out:
            out.write(wrapper)
        done = run(["sbatch", "--parsable", "--output=/dev/null", "--time=5", f"w{index}.sh"])
        if done.returncode != 0:
            failures.add(key, text, f"sbatch: {done.stderr[:200]}")
            continue
        submitted += 1
    if not wait_for_jobs(60):
        failures.add("jobs", "", "jobs are still in the queue; none has ended for 60 s")
    for index, (key, text) in enumerate(pairs):
        if key in BOOLEAN_KEYS or (key.startswith("train.") and re.fullmatch(r"[0-9.e+-]+", text)):
            continue  # The script has only a flag for `true`, and may write a number differently.
        record = f"record-{index}"
        words = open(record, "rb").read() if os.path.exists(record) else b""
        words += options_of_lead(index)
        if not any(is_passed_value(key, text, word) for word in words.split(b"\0")):
            failures.add(key, text,
                         f"not among the words that srun, module and conda got: {words[-200:]!r}")
    return submitted


def is_passed_value(key, text, word):
    """Returns True if the word is the key's value as the script passes it on: alone, after the
    key's option and "=", or in a form derived from the value."""
    option = ("--comment" if key == "launch.srun" else KEY_OPTIONS.get(key) or "").encode()
    # The option of lead also says whether a smaller or a larger result is better.
    if key == "sweep.stop_early.metric":
        return word.startswith((b"min:", b"max:")) and is_derived_value(key, text, word[4:])
    # The agent reads the value as a template, in which a brace is written twice.
    if key == "track.wandb.project":
        return word == b"WANDB_PROJECT=" + text.replace("{", "{{").replace("}", "}}").encode()
    # The option also has dlrun's own mounts. A path without a target is mounted at the same path.
    if key == "container.mounts":
        both = re.match(rb"--container-mounts=([^:,]*):([^:,]*),", word)
        return bool(both) and all(is_derived_value(key, text, part) for part in both.groups())
    if key == "environment.venv":
        return is_derived_value(key, text, word, after=b"/bin/activate")
    if key == "environment.uv.project":
        return is_derived_value(key, text, word, after=b"/.dlrun/uv/current")
    if key == "environment.eessi":
        return is_derived_value(key, text, word, b"/cvmfs/software.eessi.io/versions/",
                                b"/init/bash")
    if key == "stage":
        return (word.startswith(b'{"from":')
                and is_derived_value(key, text, json.loads(word)["from"].encode()))
    return (is_derived_value(key, text, word)
            or (option != b"" and is_derived_value(key, text, word, before=option + b"=")))


KEY_OPTIONS = {}
KEY_FORMATS = {}
TURN = [0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--turn", type=int, default=time.localtime().tm_yday)
    parser.add_argument("--rest", metavar="URL")
    args = parser.parse_args()
    for table, entries in zip((KEY_OPTIONS, KEY_FORMATS), read_keys(args.keys)):
        table.update(entries)
    if len(KEY_OPTIONS) < 50:
        sys.exit(f"only {len(KEY_OPTIONS)} keys found in {args.keys}")
    TURN[0] = args.turn
    print(f"selection: --turn {args.turn}", flush=True)
    failures = Failures()
    if args.rest:
        check_rest(args.rest, args.all, failures)
        return check_canaries_and_print_failures(failures)
    check_valid_values(failures)
    # environment.setup is shell code by definition. check_jobs() and check_local() check
    # environment.vars and launch.command.
    keys = [key for key in KEY_OPTIONS
            if key not in ("environment.setup", "environment.vars", "launch.command")]
    accepted, refused, without_directive = check_directives(keys, args.all, failures)
    print(f"{len(ALL_STRINGS)} strings x {len(keys)} keys: {accepted} accepted, {refused} refused",
          flush=True)
    # A job for every accepted pair would mean thousands of jobs. Each key gets strings of each
    # kind, spread over all strings.
    by_key = {}
    for key, text in without_directive:
        by_key.setdefault(key, []).append(text)
    sample = [(key, text) for key, texts in by_key.items() for stride in [max(1, len(texts) // 12)]
              for text in texts[TURN[0] % stride :: stride]]
    print(f"{check_prologue(sample, failures)} jobs for srun's options, modules and paths",
          flush=True)
    print(f"{check_jobs(failures, stride=1 if args.all else 4)} jobs for environment.vars and "
          "launch.command", flush=True)
    print(f"{check_local(failures, stride=1 if args.all else 2)} runs on this machine", flush=True)
    return check_canaries_and_print_failures(failures)


def check_canaries_and_print_failures(failures):
    canaries = [name for name in os.listdir(WORK_DIR) if name.startswith("canary")]
    for name in canaries:
        failures.add("executed", name, "a hostile string ran")
    for line in failures.lines[:60]:
        print("FAILED", line)
    print(f"{len(failures.lines)} failures")
    return 1 if failures.lines else 0


if __name__ == "__main__":
    sys.exit(main())
