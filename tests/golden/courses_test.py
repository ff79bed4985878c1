"""Compares rendered scripts with the slides of three HPC courses (JUWELS, GWDG and LRZ), option by
option. Every option on a slide must be in the script with the same value. Every other option must
have a comment that says why.

usage: courses_test.py [unittest's options]
"""

import pathlib
import re
import shlex
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"

# The options on the slides. None: the option must exist with any value (a mail address).
JUWELS = {
    "golden": "juwels-horovod.sh",
    "sbatch": {
        "--nodes": "2",
        "--ntasks": "8",
        "--ntasks-per-node": "4",
        "--output": "output_%j.out",
        "--error": "error_%j.er",
        "--time": "00:10:00",
        "--job-name": "HOROVOD_KERAS_MNIST",
        "--gres": "gpu:4",
        "--partition": "develgpus",
        "--mail-type": "ALL",
        "--mail-user": None,
    },
    "lines": [
        "module load GCC/8.3.0",
        "module load TensorFlow/1.13.1-GPU-Python-3.6.8",
        "module load Keras/2.2.4-GPU-Python-3.6.8",
    ],
    "srun": {},
    "program": ["python", "-u", "mnist.py"],
}

GWDG = {
    "golden": "grete-conda.sh",
    "sbatch": {
        "--job-name": "custom-name",
        "--nodes": "2",
        "--ntasks-per-node": "1",
        "--cpus-per-task": "2",
        "--mem-per-cpu": "4GB",
        "--time": "00:01:00",
        "--mail-type": "all",
        "--mail-user": None,
    },
    # `source activate` was the name of `conda activate` before conda 4.4.
    "lines": ["module load anaconda3/2021.05", "conda activate custom-env"],
    "srun": {},
    "program": ["python", "custom-script.py"],
}

LRZ_IMAGE = "horovod/horovod+0.16.4-tf1.12.0-torch1.1.0-mxnet1.4.1-py3.5"
LRZ = {
    "golden": "lrz-horovod.sh",
    "sbatch": {"--partition": "dgx", "--ntasks": "8", "--gres": "gpu:8"},
    "lines": [],
    "srun": {
        "--container-image": LRZ_IMAGE,
        "--container-name": "horovod",
        "--container-mounts": ["./data-test:/mnt/data-test"],
    },
    "program": ["python", "train.py"],
}

# The LRZ container without pyxis: `enroot create`, then `enroot start --mount
# ./data-test:/mnt/data-test ubuntu` under srun.
LRZ_ENROOT = {
    "golden": "lrz-enroot.sh",
    "sbatch": {"--partition": "dgx", "--ntasks": "8", "--gres": "gpu:8"},
    "lines": [],
    "srun": {},
    "enroot": {"--mount": "./data-test:/mnt/data-test"},
    "program": ["python3", "train.py"],
}

COURSES = [JUWELS, GWDG, LRZ, LRZ_ENROOT]


def split_option(word):
    name, equals, value = word.partition("=")
    return name, value if equals else None


def comment_of(line):
    """Returns the text after the first '#' outside of quotes."""
    comment = re.sub(r"""^((?:"(?:\\.|[^"\\])*"|'[^']*'|[^"'#])*)""", "", line)
    return comment.removeprefix("#").strip()


def options_of(lines, prefix):
    """Returns [(name, value, comment)] of lines such as `#SBATCH --nodes=2  # resources.nodes`."""
    found = []
    for line in lines:
        text = line.strip()
        if not text.startswith(prefix):
            continue
        text = text[len(prefix) :].strip()
        words = shlex.split(text, comments=True)
        name, value = split_option(words[0])
        found.append((name, value, comment_of(text)))
    return found


def lines_of_array(text, name):
    """Returns the lines between NAME=( and ); none if the script has no such array."""
    match = re.search(rf"^{name}=\(\n(.*?)^\)$", text, re.S | re.M)
    return match.group(1).splitlines() if match else []


class Script:
    """A rendered script: the options of sbatch and of srun as (name, value, comment), the words of
    the program, and the folder where the job starts."""

    def __init__(self, text):
        self.text = text
        self.sbatch = options_of(text.splitlines(), "#SBATCH")
        step = [line for line in lines_of_array(text, "dlrun_step") if line.strip() != "srun"]
        self.srun = options_of(step, "")
        program = [line for line in lines_of_array(text, "dlrun_program")
                   if not line.strip().startswith("#")]
        self.program = shlex.split("\n".join(program), comments=True)
        chdir = [value for name, value, _ in self.sbatch if name == "--chdir"]
        self.folder = chdir[0] if chdir else "/"

    def relative(self, path):
        """Returns a path as on the slide: relative to the folder where the job starts if the path
        is below this folder, otherwise unchanged."""
        return path.removeprefix(self.folder + "/")


def is_as_on_slide(script, on_slide, value):
    """Returns True if the value of an option in the script agrees with the slide: the value equals
    that on the slide, has all entries of a list on the slide, or is not empty if on_slide is None.
    """
    if on_slide is None:
        return bool(value)
    if isinstance(on_slide, list):  # A list option must contain the slide's entries.
        entries = [script.relative(entry) for entry in (value or "").split(",")]
        return all(entry.removeprefix("./") in entries for entry in on_slide)
    return on_slide == script.relative(value or "")


def lines_of_function(text, name):
    """Returns the lines of the body of a shell function; none if the script does not have it."""
    match = re.search(rf"^{name}\(\) \{{.*?\n(.*?)^\}}$", text, re.S | re.M)
    return match.group(1).splitlines() if match else []


def enroot_differences(course, script):
    """Returns the differences in the commands of enroot: in the container and in its mounts. Each
    mount, and each option that only the script has, also needs a comment."""
    found = []
    lines = [line for line in lines_of_array(script.text, "dlrun_enter")
             if line.strip().startswith("--mount ")]
    # enroot reads mounts as lines of an fstab, in which \040 is a blank.
    mounts = [(script.relative(shlex.split(line, comments=True)[1].replace(r"\040", " ")),
               comment_of(line)) for line in lines]
    on_slide = course["enroot"]["--mount"].removeprefix("./")
    if [mount for mount, _ in mounts].count(on_slide) != 1:
        found.append(f"enroot start --mount is {mounts}, the slide has {on_slide}")
    found += [f"enroot start --mount {mount} has no comment that says why"
              for mount, comment in mounts if not comment]
    create_lines = lines_of_function(script.text, "hold_container")
    start_lines = lines_of_function(script.text, "enter_container")
    if (not any('enroot create --name "$name" "$1"' in line for line in create_lines)
        or not any("local name=ubuntu " in line for line in create_lines)):
        found.append("the container ubuntu is not created")
    if not any(line.strip() == 'exec enroot start "${dlrun_options[@]}" ubuntu "${@:2}"'
               for line in start_lines):
        found.append("the container ubuntu is not started with exactly the options of the script")
    # The comment of an option that is set in a loop is some lines above.
    for i, line in enumerate(start_lines):
        sets_option = re.match(r"\s*(export |dlrun_options\+=|if .*dlrun_options\+=|.*\) "
                               r"dlrun_options\+=)", line)
        above = start_lines[max(0, i - 6) : i + 1]
        if sets_option and not any(comment_of(one) for one in above):
            found.append(f"'{line.strip()}' is not on the slide, and no comment says why")
    return found


def differences(course, text):
    """Returns the differences between a script and the course. Leaves out an option or a line that
    only the script has if a comment explains it. An option with a list always needs a comment."""
    script = Script(text)
    found = []
    for kind, options in (("sbatch", script.sbatch), ("srun", script.srun)):
        on_slide = course[kind]
        names = [name for name, _, _ in options]
        found += [f"{kind} {name} is given twice" for name in set(names) if names.count(name) > 1]
        found += [f"{kind} {name} is missing" for name in on_slide if name not in names]
        for name, value, comment in options:
            if name in on_slide and not is_as_on_slide(script, on_slide[name], value):
                found.append(f"{kind} {name} is {value!r}, the slide has {on_slide[name]!r}")
            if (name not in on_slide or isinstance(on_slide[name], list)) and not comment:
                found.append(f"{kind} {name} is a list or not on the slide, and has no comment")
    lines = [(shlex.split(line, comments=True), comment_of(line)) for line in text.splitlines()
             if re.match(r"(module|conda|export) ", line)]
    commands = [" ".join(words) for words, _ in lines]
    found += [f"'{line}' is missing" for line in course["lines"] if line not in commands]
    if [line for line in commands if line in course["lines"]] != course["lines"]:
        found.append("the lines are not in the slide's order")
    found += [f"'{' '.join(words)}' is not on the slide, and no comment says why"
              for words, comment in lines if " ".join(words) not in course["lines"] and not comment]
    found += enroot_differences(course, script) if "enroot" in course else []
    if script.program != course["program"]:
        found.append(f"the program is {script.program}")
    return found


class Courses(unittest.TestCase):
    def test_every_script_has_the_options_of_its_course(self):
        for course in COURSES:
            with self.subTest(course["golden"]):
                self.assertEqual(differences(course, (SCRIPTS / course["golden"]).read_text()), [])

    def test_the_interactive_script_calls_salloc_and_srun_with_the_options_of_the_slide(self):
        text = (SCRIPTS / "lrz-horovod.interactive.sh").read_text()
        words = [line.removeprefix("# ") for line in text.split("# called by:\n")[1].splitlines()]
        self.assertEqual(words[0], "salloc")
        allocation = dict(split_option(word) for word in words[1 : words.index("srun")])
        for name, value in LRZ["sbatch"].items():
            self.assertEqual(allocation.get(name), value)
        self.assertIn("--pty", words[words.index("srun") :])
        # The slide's second command: srun with the container's options and a shell.
        inner = next(line for line in text.splitlines() if line.startswith("exec srun"))
        options = dict(split_option(word) for word in shlex.split(inner) if word.startswith("--"))
        script = Script(text)
        script.folder = allocation["--chdir"]
        for name, value in LRZ["srun"].items():
            self.assertTrue(is_as_on_slide(script, value, options.get(name)), name)
        self.assertIn("bash -i", inner)

    def test_the_interactive_script_without_pyxis_calls_salloc_srun_pty_and_enroot_start(self):
        text = (SCRIPTS / "lrz-enroot.interactive.sh").read_text()
        words = [line.removeprefix("# ") for line in text.split("# called by:\n")[1].splitlines()]
        self.assertEqual(words[0], "salloc")
        allocation = dict(split_option(word) for word in words[1 : words.index("srun")])
        for name, value in LRZ_ENROOT["sbatch"].items():
            self.assertEqual(allocation.get(name), value)
        self.assertIn("--pty", words[words.index("srun") :])
        script = Script(text)
        script.folder = allocation["--chdir"]
        self.assertEqual(enroot_differences(LRZ_ENROOT, script), [])
        self.assertRegex(text, r'(?m)^"\$\{dlrun_enter\[@\]\}" .*bash -i')

    def test_the_comparison_of_enroot_commands_reports_each_kind_of_difference(self):
        text = (SCRIPTS / "lrz-enroot.sh").read_text()
        self.assertEqual(enroot_differences(LRZ_ENROOT, Script(text)), [])
        mount = next(line for line in text.splitlines() if "data-test:/mnt/data-test" in line)
        for changed in (
            text.replace(mount + "\n", ""),
            text.replace(mount, mount + "\n" + mount),
            text.replace(":/mnt/data-test", ":/mnt/data"),
            text.replace("name=ubuntu ", "name=debian "),
            text.replace("enroot create --name", "enroot import --name"),
            text.replace('"${dlrun_options[@]}" ubuntu', '"${dlrun_options[@]}" debian'),
            text.replace("  --\n)", "  --mount /etc:/etc\n  --\n)"),
            re.sub(r"(?m)^  # .*\n|  # container\.mount_home.*$", "", text),
        ):
            self.assertNotEqual(changed, text)
            self.assertTrue(enroot_differences(LRZ_ENROOT, Script(changed)))

    def test_the_comparison_reports_each_difference_in_options_lines_or_the_program(self):
        for course in COURSES:
            text = (SCRIPTS / course["golden"]).read_text()
            for name in [*course["sbatch"], *course["srun"]]:
                line = next(line for line in text.splitlines()
                            if re.match(rf"(#SBATCH |  )'?{name}=", line))
                with self.subTest(course["golden"], option=name):
                    self.assertTrue(differences(course, text.replace(line + "\n", "")), "missing")
                    self.assertTrue(differences(course, text.replace(line, line + "\n" + line)),
                                    "twice")
                    if (course["sbatch"] | course["srun"])[name] is not None:
                        self.assertTrue(differences(course,
                                                    text.replace(line, line.replace("=", "=x", 1))),
                                        "changed")
            for line in course["lines"]:
                self.assertTrue(differences(course, text.replace(line, "true")), line)
            self.assertTrue(differences(course,
                                        text.replace("#SBATCH --open-mode=append ",
                                                     "#SBATCH --open-mode=append\n#")))
            self.assertTrue(differences(course,
                                        text.replace("\ndlrun_step=(\n  srun\n",
                                                     "\ndlrun_step=(\n  srun\n  --overcommit\n")))
            self.assertTrue(differences(course,
                                        text.replace("dlrun_program=(\n",
                                                     "dlrun_program=(\n  nice\n")))


if __name__ == "__main__":
    unittest.main()
