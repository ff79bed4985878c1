#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/terminal/questions.h"
#include "common/files.h"
#include "launcher/spec/sites.h"
#include "tests/unit/cli_fixture.h"

namespace dlrun {
TEST_CASE_FIXTURE(CliFixture,
                  "init writes a spec that passes check, and overwrites a file only with --force") {
  CHECK(call({"init", "--yes", "--site", "testbed", "-o", "exp.yaml"}) == 0);
  CHECK(call({"check", "exp.yaml"}) == 0);
  const std::string first = read("exp.yaml");
  CHECK(call({"init", "--yes", "--site", "testbed", "-o", "exp.yaml", "--name", "other"}) == 2);
  CHECK(read("exp.yaml") == first);
  CHECK(call({"init", "--yes", "--site", "testbed", "-o", "exp.yaml", "--name", "other",
              "--force"}) == 0);
  CHECK(read("exp.yaml").find("name: other\n") != std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture,
                  "init writes nothing if the values of its flags do not form a valid spec, or if "
                  "the site is unknown") {
  CHECK(call({"init", "--yes", "--site", "juwels", "--gpus", "16", "-o", "exp.yaml"}) == 2);
  CHECK(call({"init", "--yes", "--gpus", "many", "-o", "exp.yaml"}) == 2);
  CHECK(call({"init", "--yes", "--time", "soon", "-o", "exp.yaml"}) == 2);
  CHECK(call({"init", "--yes", "--site", "nowhere", "-o", "exp.yaml"}) == 6);
  CHECK(read("exp.yaml").empty());
}

TEST_CASE_FIXTURE(
    CliFixture,
    "init --image needs a container runtime that dlrun knows, from the site or from --runtime") {
  CHECK(call({"init", "--yes", "--site", "generic", "--image", "./x.sqsh", "-o", "exp.yaml"}) == 2);
  CHECK(read("exp.yaml").empty());
  CHECK(call({"init", "--yes", "--image", "./x.sqsh", "--runtime", "dockr", "-o", "exp.yaml"}) ==
        2);
  CHECK(read("exp.yaml").empty());
  CHECK(call({"init", "--yes", "--site", "generic", "--image", "./x.sqsh", "--runtime", "enroot",
              "-o", "exp.yaml"}) == 0);
  CHECK(read("exp.yaml").find("  runtime: enroot\n") != std::string::npos);
}

TEST_CASE_FIXTURE(
    CliFixture,
    "an error about the value of a flag of init refers to the flag, not to a line of exp.yaml") {
  for (const char* flag : {"--nodes", "--tasks", "--cpus"}) {
    for (const char* value : {"x", "0", "2.5", "99999999999999999999"}) {
      CHECK(code_and_stderr({"init", "--yes", flag, value, "-o", "exp.yaml"}) ==
            fmt::format("2\ndlrun: error: {}: '{}' is not a number from 1 on\n", flag, value));
    }
  }
  const auto result = code_and_stderr(
      {"init", "--yes", "--site", "juwels", "--gpus", "99", "--time", "soon", "-o", "exp.yaml"});
  CHECK(result.find("--gpus: error: resources.gpus_per_node is 99, but site 'juwels'") !=
        std::string::npos);
  CHECK(result.find("--time: error: resources.time: 'soon' is not a time") != std::string::npos);
  CHECK(result.find("exp.yaml:") == std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture, "init takes the words after -- as the command") {
  CHECK(call({"init", "--yes", "-o", "exp.yaml", "--", "python", "-u", "train.py", "--epochs",
              "3"}) == 0);
  CHECK(read("exp.yaml").find("command: [python, \"-u\", train.py, \"--epochs\", 3]") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(CliFixture,
                  "init refuses a job script as the command, but accepts a program that has "
                  "#SBATCH lines only in a string") {
  std::ofstream(folder / "job.sh") << "#!/bin/bash\n#SBATCH -N 2\nsrun ./x\n";
  const auto refused = code_and_stderr({"init", "--yes", "-o", "exp.yaml", "--", "./job.sh"});
  CHECK(refused.find("is a job script with #SBATCH lines") != std::string::npos);
  CHECK(refused.starts_with("2\n"));
  std::ofstream(folder / "start.py") << "#!/usr/bin/env python3\nSCRIPT = \"\"\"\n#SBATCH -N 2\n"
                                        "\"\"\"\n";
  CHECK(call({"init", "--yes", "-o", "exp.yaml", "--", "./start.py"}) == 0);
}

TEST_CASE_FIXTURE(CliFixture,
                  "init --from writes a spec that passes check, warns about lines that it leaves "
                  "out, and never runs the script") {
  std::ofstream(folder / "job.sh") << "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -t 10\nmkdir out\n"
                                      "srun python t.py\ntouch ran\n";
  const std::string result = code_and_stderr({"init", "--from", "job.sh", "-o", "exp.yaml"});
  CHECK(result.starts_with("0\n"));
  CHECK(result.find("job.sh:4:1: warning: mkdir out: ") != std::string::npos);
  CHECK(result.find("job.sh:6:1: warning: touch ran: ") != std::string::npos);
  CHECK(call({"check", "exp.yaml"}) == 0);
  CHECK(read("exp.yaml").find("command: [python, t.py]") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
  CHECK_FALSE(std::filesystem::exists(folder / "ran"));
}

TEST_CASE_FIXTURE(
    CliFixture,
    "init --from accepts --force, --site and a command, and refuses --nodes and a missing script") {
  std::ofstream(folder / "job.sh")
      << "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -t 10\nsrun python t.py\n";
  std::ofstream(folder / "exp.yaml") << "name: exp\n";
  CHECK(call({"init", "--from", "job.sh", "-o", "exp.yaml"}) == 2);  // exp.yaml exists
  CHECK(call({"init", "--from", "job.sh", "-o", "exp.yaml", "--force", "--site", "testbed", "--",
              "./other", "--flag"}) == 0);
  CHECK(read("exp.yaml").find("command: [\"./other\", \"--flag\"]") != std::string::npos);
  CHECK(read("exp.yaml").find("site: testbed\n") != std::string::npos);
  CHECK(call({"init", "--from", "job.sh", "--nodes", "4"}) == 2);
  CHECK(call({"init", "--from", "nowhere.sh"}) == 6);
}

TEST_CASE_FIXTURE(CliFixture,
                  "doctor ends with exit code 6 if there is no Slurm, and with 2 if it gets --json "
                  "and --site-file") {
  CHECK(call({"doctor"}) == 6);
  CHECK(call({"doctor", "--site-file"}) == 6);
  CHECK(call({"doctor", "--json", "--site-file"}) == 2);
}

/// Returns a function that prints texts to `out` without styles.
std::function<void(const Text&)> printer_to(std::ostringstream& out) {
  return [&out](const Text& text) { out << text.plain(); };
}

TEST_CASE(
    "init's questions use the default on an empty line, repeat after a wrong answer, and skip "
    "values given by flags") {
  const SiteProfile site = find_site("testbed", {})->profile;
  InitAnswers answers;
  answers.time = "5m";
  std::istringstream in("bad name\nlab\n\nmany\n2\n9\na100:2\n\necho 'hi there'\n");
  std::ostringstream out;
  REQUIRE(ask_questions(answers, site, in, printer_to(out)).has_value());
  CHECK(answers.name == "lab");
  CHECK_FALSE(answers.partition.has_value());
  CHECK(answers.nodes == 2);
  CHECK(answers.gpus_per_node->type == "a100");
  CHECK(answers.gpus_per_node->count == 2);
  CHECK(answers.time == "5m");
  CHECK_FALSE(answers.account.has_value());
  CHECK(answers.command == std::vector<std::string>{"bash", "-c", "echo 'hi there'"});
  CHECK(out.str().find("Partition [batch]") != std::string::npos);
  CHECK(out.str().find("site 'testbed' has at most 4 GPUs per node") != std::string::npos);
  CHECK(out.str().find("Time limit") == std::string::npos);
}

TEST_CASE(
    "init asks again for a partition that is not in the site's list, and accepts any name if the "
    "site has no list") {
  InitAnswers answers;
  std::istringstream in("lab\n2\nbatch\n");
  std::ostringstream out;
  // The input ends before the last answer.
  CHECK_FALSE(
      ask_questions(answers, find_site("testbed", {})->profile, in, printer_to(out)).has_value());
  CHECK(answers.partition == "batch");
  CHECK(out.str().find("'2' is not one of the partitions: batch") != std::string::npos);
  std::istringstream in_without_list("lab\n2\n");
  InitAnswers answers_without_list;
  CHECK_FALSE(ask_questions(answers_without_list, SiteProfile{}, in_without_list, printer_to(out))
                  .has_value());
  CHECK(answers_without_list.partition == "2");
}

TEST_CASE("the answer `none` to init's question about an account leaves the account out") {
  InitAnswers answers;
  std::istringstream in("lab\n\n\n\n\nnone\n\n");
  std::ostringstream out;
  REQUIRE(ask_questions(answers, SiteProfile{}, in, printer_to(out)).has_value());
  CHECK(out.str().find("Account, if the cluster requires one [none]") != std::string::npos);
  CHECK_FALSE(answers.account.has_value());
}

TEST_CASE("init asks for the preset of a Python program, and of no other program") {
  const auto answers_to = [](const std::string& command, const std::string& rest) {
    InitAnswers answers;
    std::istringstream in("lab\n\n\n\n\n\n" + command + "\n" + rest);
    std::ostringstream out;
    REQUIRE(ask_questions(answers, SiteProfile{}, in, printer_to(out)).has_value());
    return std::pair(answers.preset, out.str());
  };
  const auto [preset, shown] = answers_to("python3 -u ddp.py", "torhc\ntorch\n");
  CHECK(preset == "torch");
  CHECK(shown.find("torch.distributed with init_method env://") != std::string::npos);
  CHECK(shown.find("'torhc' is not one of the presets: ") != std::string::npos);
  CHECK_FALSE(answers_to("/opt/venv/bin/python train.py", "\n").first.has_value());
  CHECK(answers_to("./train", "").second.find("Preset") == std::string::npos);
}

TEST_CASE("input of init that ends before the last answer is an interruption") {
  InitAnswers answers;
  std::istringstream in("lab\n");
  std::ostringstream out;
  const auto asked = ask_questions(answers, SiteProfile{}, in, printer_to(out));
  REQUIRE_FALSE(asked.has_value());
  CHECK(asked.error().code == Errc::kInterrupted);
}

}  // namespace dlrun
