#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/runs/carried_spec.h"
#include "launcher/submit/job.h"
#include "launcher/submit/script_file.h"

using namespace dlrun;

TEST_CASE("a script's #SBATCH values are read as sbatch reads them") {
  const char* text =
      "#!/bin/bash\n#SBATCH --job-name=mnist # name\n#SBATCH -o \"out \\\"x\\\"_%j.txt\" "
      "--time=1\n##SBATCH "
      "--output=commented\n"
      "# a remark\n\necho hello\n#SBATCH --output=too-late\n";
  CHECK(sbatch_value(text, "--job-name", "-J") == "mnist");
  CHECK(sbatch_value(text, "--output", "-o") == "out \"x\"_%j.txt");
  CHECK_FALSE(sbatch_value(text, "--partition", "-p").has_value());
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH -pgpu\n", "--partition", "-p") == "gpu");
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH -p a\n#SBATCH -p b\n", "--partition", "-p") == "b");
  // Options may be abbreviated, as for sbatch. A complete option name never abbreviates a longer
  // one.
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH --arr=1-3\n", "--array", "-a") == "1-3");
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH --part gpu\n", "--partition", "-p") == "gpu");
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH --ntasks-per=2\n", "--ntasks-per-node", "") == "2");
  CHECK_FALSE(sbatch_value("#!/bin/sh\n#SBATCH --ntasks=2 --gpus=4\n", "--ntasks-per-node", ""));
  CHECK_FALSE(sbatch_value("#!/bin/sh\n#SBATCH --gpus=4\n", "--gpus-per-task", ""));
  CHECK_FALSE(sbatch_value("#!/bin/sh\n#SBATCH --time-min=4\n", "--time", "-t"));
  CHECK(sbatch_option(text, "--output", "-o")->line == 3);
  CHECK(sbatch_option("#!/bin/sh\n#SBATCH -p a\n# x\n#SBATCH -p b\n", "--partition", "-p")->line ==
        4);
}

TEST_CASE("joined short options, flags and #PBS lines in a script are read as sbatch reads them") {
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH -QHa0-1\n", "--array", "-a") == "0-1");
  CHECK(sbatch_value("#!/bin/sh\n#SBATCH -Ha 0-1\n", "--array", "-a") == "0-1");
  CHECK_FALSE(sbatch_value("#!/bin/sh\n#SBATCH -Jba1\n", "--array", "-a"));
  CHECK(line_of_flag("#!/bin/sh\n#SBATCH -p x\n#SBATCH -QW\n", "--wait", "-W") == 3);
  CHECK(line_of_flag("#!/bin/sh\n#SBATCH --wait\n", "--wait", "-W") == 2);
  CHECK_FALSE(line_of_flag("#!/bin/sh\n#SBATCH --wait-all-nodes=1 -JW -wW # -W\n", "--wait", "-W"));
  CHECK_FALSE(line_of_flag("#!/bin/sh\ntrue\n#SBATCH -W\n", "--wait", "-W"));
  CHECK(line_of_part_separator("#!/bin/sh\n#SBATCH -N1\n#SBATCH Hetjob\n") == 3);
  CHECK(line_of_part_separator("#!/bin/sh\n#SBATCH packjob\n") == 2);
  CHECK_FALSE(line_of_part_separator("#!/bin/sh\n#SBATCH -J hetjob\n"));
  CHECK(no_op_scripts_of_parts(
            "#!/bin/bash\n#SBATCH -N1 # one\n\n#SBATCH hetjob\n#SBATCH -p q\nexit 3\n") ==
        std::vector<std::string>{"#!/bin/sh\n#SBATCH -N1 # one\ntrue\n",
                                 "#!/bin/sh\n#SBATCH -p q\ntrue\n"});
  CHECK(no_op_scripts_of_parts("#!/bin/bash\nexit 3\n") ==
        std::vector<std::string>{"#!/bin/sh\ntrue\n"});
  CHECK(pbs_option("#!/bin/sh\n#PBS -N x -t0-1\n", "-t")->value == "0-1");
  CHECK_FALSE(pbs_option("#!/bin/sh\n#SBATCH --ignore-pbs\n#PBS -t 0-1\n", "-t"));
}

TEST_CASE(
    "sbatch options that a run cannot have are refused with their line numbers, and other "
    "options are accepted") {
  const auto refusals = [](const std::string& lines) {
    return refused_option_messages("#!/bin/bash\n" + lines);
  };
  const auto check_refusal = [&](const std::string& lines, std::string_view beginning) {
    const auto found = refusals(lines);
    CAPTURE(lines);
    REQUIRE(found.size() == 1);
    CAPTURE(found.front());
    CHECK(found.front().starts_with(beginning));
  };
  // These scripts do not start dlrun's agent.
  check_refusal("#SBATCH -a 0-1\ntrue\n",
                "2: --array=0-1 makes several jobs, and a run is the record of one");
  check_refusal("#PBS -J 0-1\ntrue\n", "2: #PBS -J 0-1 makes several jobs");
  check_refusal("#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\ntrue\n",
                "3: a heterogeneous job is several jobs");
  check_refusal("#SBATCH -W\ntrue\n", "2: --wait cannot be given: use dlrun submit --watch");
  check_refusal("#SBATCH --wait # for it\ntrue\n", "2: --wait cannot be given");
  check_refusal("#SBATCH --test-o\ntrue\n",
                "2: --test-only cannot be given: it submits nothing; use dlrun submit --test-only");
  CHECK(refusals("#SBATCH --export=NONE -Q --parsable --wait-all-nodes=1\ntrue\n").empty());
  // A script that starts dlrun's agent needs the variables from dlrun.
  const std::string agent = "exec \"$dlrun_agent\" lead --runs /r --name x -- x\n";
  check_refusal("#SBATCH -N1\n#SBATCH --export=NONE\n" + agent,
                "3: --export=NONE cannot be given: ");
  check_refusal("#SBATCH --export A=1,B\n" + agent, "2: --export=A=1,B cannot be given: ");
  check_refusal("#SBATCH --export-f=env\n" + agent, "2: --export-file cannot be given: ");
  CHECK(refusals("#SBATCH --export=ALL\n" + agent).empty());
  CHECK(refusals("#SBATCH --export=A=1,all\n" + agent).empty());
  // The parts of a heterogeneous job that dlrun rendered are the components of one run.
  const std::string parts = "#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n";
  CHECK(refusals(parts + "exec \"$dlrun_agent\" lead --name x \"${dlrun_component_a[@]}\" -- x\n")
            .empty());
  check_refusal(parts + agent, "3: a heterogeneous job is several jobs");
  // Only the last --export counts.
  CHECK(refusals("#SBATCH --export=NONE\n#SBATCH --export=ALL,A=1\n" + agent).empty());
  const auto all = refusals("#SBATCH --export=NONE\n#SBATCH -W\n#SBATCH --array=1\n" + agent);
  REQUIRE(all.size() == 3);
  CHECK(all[0].starts_with("2: --export"));
  CHECK(all[2].starts_with("4: --array"));
}

TEST_CASE(
    "name and runs folder are read from a rendered script, and dlrun's --output there does not "
    "count as the user's") {
  const auto script = parse_script_requests(
      "#!/bin/bash\n#SBATCH --job-name=mnist\n#SBATCH --output=/r/mnist-%j.out\nexec "
      "\"$dlrun_agent\" lead --runs /r "
      "--name "
      "mnist -- x\n",
      "job.sh");
  CHECK(script.name == "mnist");
  CHECK(script.runs_dir == "/r");
  CHECK_FALSE(script.output.has_value());
}

TEST_CASE("a script without a job name gets a valid name from its file's name") {
  CHECK(parse_script_requests("#!/bin/sh\n", "my job.sh").name == "my-job");
  CHECK(parse_script_requests("#!/bin/sh\n", "-.sh").name == "job");
  CHECK(parse_script_requests("#!/bin/sh\n", "my job.sh").job_name ==
        "my-job");  // the job has the same name
  CHECK_FALSE(parse_script_requests("#!/bin/sh\n", "a.sh").is_named);
  const auto of_pbs = parse_script_requests("#!/bin/sh\n#PBS -N foo\n", "a.sh");
  CHECK(of_pbs.name == "foo");
  CHECK(of_pbs.is_named);
  CHECK(parse_script_requests("#!/bin/sh\n#SBATCH -o x.out\n", "a.sh").output == "x.out");
}

TEST_CASE("a path of the trainer in a script ends at its closing quote or at a space") {
  using Paths = std::vector<std::string>;
  const auto trainers = [](const std::string& lines) {
    return parse_script_requests("#!/bin/bash\n" + lines, "x.sh").trainers;
  };
  CHECK(trainers("srun /a/dlrun-trainer --epochs 1\n  '/b c/dlrun-trainer' \\\n") ==
        Paths{"/a/dlrun-trainer", "/b c/dlrun-trainer"});
  // Comments, paths with variables and other file names do not count.
  CHECK(trainers("# /a/dlrun-trainer\n$D/dlrun-trainer\n/a/dlrun-trainer.log\n").empty());
}

TEST_CASE("is_script() is true for a script, and false for a spec") {
  CHECK(is_script("#!/bin/sh\n"));
  CHECK_FALSE(is_script("name: x\n"));
  CHECK_FALSE(is_script("# a comment\n"));
}

TEST_CASE(
    "an edited script has the image of its spec if it still contains the image, even in enroot's "
    "form") {
  Experiment experiment;
  CHECK(image_in_script(experiment, "#!/bin/bash\ntrue\n").empty());
  experiment.loaded.spec.container.image = "docker://nvcr.io/team/a:1";
  CHECK(image_in_script(experiment,
                        "#!/bin/bash\nsrun '--container-image=nvcr.io#team/a:1' x\n#| image: "
                        "docker://nvcr.io/team/a:1\n") == "docker://nvcr.io/team/a:1");
  CHECK(image_in_script(experiment,
                        "#!/bin/bash\nsrun '--container-image=nvcr.io#team/b:1' x\n#| image: "
                        "docker://nvcr.io/team/a:1\n")
            .empty());
}

TEST_CASE(
    "an unedited script has the image of its spec, even if the script quotes the image's path") {
  Experiment experiment;
  experiment.loaded.spec.container.image = "/it's.sif";
  const std::string quoted = "#!/bin/bash\nrun '/it'\\''s.sif'\n";
  CHECK(image_in_script(experiment, with_carried_spec(quoted, {"name: x\n", "1", "/f", "/r", "",
                                                               ""})) == "/it's.sif");
}
