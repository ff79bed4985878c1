// Tests the requests to slurmrestd and the reading of its replies.

#include <sys/stat.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "launcher/plan/rest_job.h"
#include "launcher/spec/rest_server.h"

namespace {

using namespace dlrun;
using nlohmann::json;

const Env kEnv({{"PATH", "/bin"}, {"ODD", "two\nlines \"$x\""}});

Result<std::string> body_of(std::string_view script, std::vector<std::string> options = {},
                            const Env& env = kEnv) {
  return rest_job({script, "job.sh", options, "/home/me", env});
}

json job_of(std::string_view script, std::vector<std::string> options = {}) {
  const auto body = body_of(script, std::move(options));
  REQUIRE_MESSAGE(body, body.error().message);
  return json::parse(*body)["job"];
}

}  // namespace

TEST_CASE("a script's #SBATCH lines become fields, and command-line options take precedence") {
  const auto job = job_of(
      "#!/bin/bash\n#SBATCH --job-name=\"a b\" # a comment\n#SBATCH -N 2 "
      "--ntasks-per-node=3\n#SBATCH -t10\n"
      "#SBATCH --output=/x/%j.out\necho\n#SBATCH --nodes=9\n",
      {"--output=/y/%j.out", "--comment=dlrun:1 mine"});
  CHECK(job["name"] == "a b");
  CHECK(job["nodes"] == "2");
  CHECK(job["tasks_per_node"] == "3");
  CHECK(job["time_limit"] == "10");
  CHECK(job["standard_output"] == "/y/%j.out");
  CHECK(job["comment"] == "dlrun:1 mine");
  CHECK(job["current_working_directory"] == "/home/me");
  CHECK(job["environment"]["ODD"] == "two\nlines \"$x\"");
  CHECK_FALSE(job.contains("tasks"));
}

TEST_CASE("the variables that sbatch sets for srun are in the job's environment") {
  const auto job = job_of(
      "#SBATCH --cpus-per-task=4\n#SBATCH --mem-per-gpu=2G\n#SBATCH --gpus-per-node=a100:2\n");
  CHECK(job["environment"]["SLURM_CPUS_PER_TASK"] == "4");
  CHECK(job["environment"]["SLURM_MEM_PER_GPU"] == "2048");
  CHECK(job["environment"]["SLURM_GPUS_PER_NODE"] == "a100:2");
}

TEST_CASE("the number of tasks that sbatch would compute is in the request") {
  CHECK(job_of("#SBATCH --nodes=3\n")["tasks"] == "3");
  CHECK(job_of("#SBATCH --ntasks-per-node=2\n")["tasks"] == "2");
  CHECK_FALSE(job_of("#SBATCH --nodes=2-3\n").contains("tasks"));
  CHECK(job_of("#SBATCH --nodes=3 --ntasks=7\n")["tasks"] == "7");
}

TEST_CASE(
    "flags have the forms that slurmrestd 22.05 accepts, which differ from its API description") {
  const auto job =
      job_of("#SBATCH --exclusive --no-requeue --no-kill -H\n#SBATCH --kill-on-invalid-dep=yes\n");
  CHECK(job["exclusive"] == "exclusive");
  CHECK(job["no_kill"] == "set");
  CHECK(job["no_requeue"] == true);
  CHECK(job["hold"] == true);
  CHECK(job["kill_on_invalid_dependency"] == true);
  const auto last = job_of("#SBATCH --no-requeue\n", {"--requeue"});
  CHECK(last["requeue"] == true);
  CHECK_FALSE(last.contains("no_requeue"));
}

TEST_CASE("all options that slurmrestd drops, misreads or does not know are refused by name") {
  const auto body = body_of("#SBATCH --hint=nomultithread -m cyclic\n#SBATCH --contiguous\n",
                            {"--signal=B:USR1@60"});
  REQUIRE_FALSE(body);
  CHECK(body.error().code == Errc::kInvalid);
  for (const char* word :
       {"--hint=nomultithread", "--distribution=cyclic", "--contiguous", "--signal=B:USR1@60"})
    CHECK_MESSAGE(body.error().message.find(word) != std::string::npos, word);
  CHECK(rest_refusal("--signal", "USR1@60") == std::nullopt);
  CHECK(rest_refusal("--nodes", "2") == std::nullopt);
  CHECK(rest_refusal("--clusters", "other"));
  CHECK(rest_refusal("--nodes", std::nullopt));
}

TEST_CASE("a variable or script that is not UTF-8 is refused, and the variable is named") {
  Env env;
  env.set("LATIN", "caf\xe9");
  const auto body = body_of("#!/bin/bash\n", {}, env);
  REQUIRE_FALSE(body);
  CHECK(body.error().message.find("LATIN") != std::string::npos);
  CHECK_FALSE(body_of("#!/bin/bash\necho caf\xe9\n"));
}

TEST_CASE("the URL of a slurmrestd is a Unix socket, an http port on loopback, or https") {
  CHECK(parse_rest_url("unix:/run/s")->socket == "/run/s");
  CHECK(parse_rest_url("http://127.0.0.1:6820/")->base == "http://127.0.0.1:6820");
  CHECK(parse_rest_url("http://[::1]:6820"));
  CHECK(parse_rest_url("http://localhost:6820"));
  CHECK(parse_rest_url("https://rest.example.org")->base == "https://rest.example.org");
  for (const char* bad :
       {"", "unix:run/s", "http://10.0.0.1:6820", "http://localhost.example.org",
        "http://127.evil.org", "https://user@host", "https://host/path", "https://host:0",
        "https://", "ftp://host", "http://127.0.0.1:1\r\nX: y", "file:///etc/passwd"})
    CHECK_MESSAGE(!parse_rest_url(bad), bad);
}
