// Tests the job descriptions that dlrun sends to slurmrestd.

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "launcher/plan/rest_fields.h"
#include "launcher/plan/rest_job.h"
#include "launcher/spec/spec_keys.h"

namespace {

using namespace dlrun;
using nlohmann::json;

const Env kEnv({{"PATH", "/bin"}, {"ODD", "two\nlines \"$x\""}});

Result<std::string> body_of(std::string_view script, std::vector<std::string> options = {},
                            const Env& env = kEnv, RestVersion version = RestVersion::k38,
                            const std::map<std::string, std::string>& keys = {}) {
  return rest_job_body({script, "job.sh", options, "/home/me", env, version, keys});
}

json job_of(std::string_view script, std::vector<std::string> options = {},
            RestVersion version = RestVersion::k38) {
  const auto body = body_of(script, std::move(options), kEnv, version);
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

TEST_CASE("short options may share a word, and the last of them may have a value") {
  const auto job = job_of("#!/bin/bash\n#SBATCH -HN2\n#SBATCH -sn 3\n");
  CHECK(job["hold"] == true);
  CHECK(job["nodes"] == "2");
  CHECK(job["tasks"] == "3");
  const auto unknown = body_of("#!/bin/bash\n#SBATCH -H?2\n");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message.find("-?2") != std::string::npos);
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
  const auto with_both = job_of("#SBATCH --no-requeue\n", {"--requeue"});
  CHECK(with_both["requeue"] == true);
  CHECK_FALSE(with_both.contains("no_requeue"));
}

TEST_CASE(
    "all options that slurmrestd drops, misreads or does not know are refused, and the error names "
    "them") {
  const auto body = body_of("#SBATCH --hint=nomultithread -m cyclic\n#SBATCH --contiguous\n",
                            {"--signal=B:USR1@60"});
  REQUIRE_FALSE(body);
  CHECK(body.error().code == Errc::kInvalid);
  for (const char* word :
       {"--hint=nomultithread", "--distribution=cyclic", "--contiguous", "--signal=B:USR1@60"})
    CHECK_MESSAGE(body.error().message.find(word) != std::string::npos, word);
  CHECK(rest_option_refusal("--signal", "USR1@60", RestVersion::k38) == std::nullopt);
  CHECK(rest_option_refusal("--nodes", "2", std::nullopt) == std::nullopt);
  CHECK(rest_option_refusal("--clusters", "other", std::nullopt));
  CHECK(rest_option_refusal("--nodes", std::nullopt, std::nullopt));
}

TEST_CASE(
    "every option of sbatch in the key table has a row for slurmrestd, except those of the uenv "
    "plugin") {
  std::size_t option_count = 0;
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target != KeyTarget::kSbatch || row.option.name.empty()) continue;
    // A plugin of sbatch adds these two options, so slurmrestd refuses them (docs/slurmrestd.md).
    if (row.option.name == "--uenv" || row.option.name == "--view") continue;
    CHECK_MESSAGE(find_sbatch_option_row(row.option.name) != nullptr, row.path,
                  " is refused for slurmrestd: add a row for ", row.option.name,
                  " to launcher/plan/rest_fields.cc; if slurmrestd has no such field, RestKind "
                  "kRefused with the reason");
    ++option_count;
  }
  CHECK(option_count >= 30);
}

TEST_CASE(
    "an option is refused for a version that cannot express it, and for an unknown version only if "
    "no version can") {
  CHECK(rest_option_refusal("--distribution", "cyclic", RestVersion::k38));
  CHECK(rest_option_refusal("--distribution", "cyclic", RestVersion::k40));
  CHECK_FALSE(rest_option_refusal("--distribution", "cyclic", RestVersion::k45));
  CHECK_FALSE(rest_option_refusal("--distribution", "cyclic", std::nullopt));
  CHECK_FALSE(rest_option_refusal("--cores-per-socket", "4", RestVersion::k38));
  CHECK(rest_option_refusal("--cores-per-socket", "4", RestVersion::k42));
  CHECK_FALSE(rest_option_refusal("--gres-flags", "enforce-binding", RestVersion::k42));
  CHECK(rest_option_refusal("--gres-flags", "enforce-binding", RestVersion::k41));
  CHECK(rest_option_refusal("--no-such-option", "4", std::nullopt));
  CHECK(rest_option_refusal("--hold", "x", std::nullopt).value_or("") ==
        "--hold is 'x', expected no value");
  CHECK(rest_option_refusal("x", std::nullopt, std::nullopt).value_or("") ==
        "'x' is not an option of sbatch");
}

TEST_CASE("a refusal names the key of the spec that the option comes from") {
  const auto body = body_of("#SBATCH --distribution=cyclic\n", {}, kEnv, RestVersion::k38,
                            {{"--distribution", "resources.distribution"}});
  REQUIRE_FALSE(body);
  CHECK(body.error().message.starts_with(
      "resources.distribution: slurmrestd (v0.0.38) cannot do what --distribution=cyclic does"));
}

TEST_CASE("the script is a field of the request up to v0.0.40, and of the job from v0.0.41 on") {
  for (const RestVersion version : kRestVersions) {
    const auto body = body_of("#!/bin/bash\n", {}, kEnv, version);
    REQUIRE(body);
    const json request = json::parse(*body);
    CHECK(request.contains("script") == (version <= RestVersion::k40));
    CHECK(request["job"].contains("script") == (version > RestVersion::k40));
  }
}

TEST_CASE("from v0.0.40 on the environment is a list, and numbers are not strings") {
  const auto body =
      body_of("#!/bin/bash\n#SBATCH -N 2-4 -n 6 --time=12:03:04 --mem=4G --cpus-per-task=2\n", {},
              kEnv, RestVersion::k42);
  REQUIRE(body);
  const json request = json::parse(*body);
  const json& job = request["job"];
  CHECK(job["script"].get<std::string>().starts_with("#!/bin/bash\n"));
  CHECK(job["nodes"] == "2-4");
  CHECK(job["tasks"] == 6);
  CHECK(job["time_limit"] == json{{"set", true}, {"infinite", false}, {"number", 724}});
  CHECK(job["memory_per_node"]["number"] == 4096);
  CHECK(job["cpus_per_task"] == 2);
  CHECK(job["tres_per_task"] == "cpu=2");
  const auto env = job["environment"].get<std::vector<std::string>>();
  const auto has = [&](std::string_view line) {
    return std::find(env.begin(), env.end(), line) != env.end();
  };
  for (const char* line :
       {"ODD=two\nlines \"$x\"", "PATH=/bin", "SLURM_CPUS_PER_TASK=2", "SLURM_TRES_PER_TASK=cpu=2",
        "OMPI_MCA_plm_slurm_args=--external-launcher", "HYDRA_BOOTSTRAP=slurm"})
    CHECK_MESSAGE(has(line), line);
  CHECK(job["oom_kill_step"] == 65534);  // NO_VAL16
  CHECK_FALSE(job_of("", {}, RestVersion::k41).contains("oom_kill_step"));
}

TEST_CASE(
    "from v0.0.40 on GPU options are resources of the job, the node, the socket or the task") {
  const auto job_of_v45 = [](std::string_view script) {
    return job_of(script, {}, RestVersion::k45);
  };
  auto job =
      job_of_v45("#SBATCH --gpus-per-node=a100:2 --gres=shard:1,lustre:2 --cpus-per-gpu=3\n");
  CHECK(job["tres_per_node"] == "gres/gpu:a100:2,gres/shard:1,gres/lustre:2");
  CHECK(job["cpus_per_tres"] == "gres/gpu:3");
  job = job_of_v45("#SBATCH --gpus=4 --mem-per-gpu=2G --gpu-freq=high\n");
  CHECK(job["tres_per_job"] == "gres/gpu:4");
  CHECK(job["memory_per_tres"] == "gres/gpu:2048");
  CHECK(job["tres_freq"] == "gpu:high");
  job = job_of_v45("#SBATCH --gpus-per-task=a100:1 --cpus-per-task=4\n");
  CHECK(job["tres_per_task"] == "cpu=4,gres/gpu:a100=1");
  CHECK(job["tres_bind"] == "gres/gpu:per_task:1");
  job = job_of_v45("#SBATCH --gpus-per-task=1 --gpu-bind=map_gpu:0,1\n");
  CHECK(job["tres_bind"] == "gres/gpu:map_gpu:0,1");
  CHECK_FALSE(job_of_v45("#SBATCH --gres=none\n").contains("tres_per_node"));
  job = job_of("#SBATCH --gpus-per-task=1 --cpus-per-task=4\n", {}, RestVersion::k40);
  CHECK(job["tres_per_task"] == "cpu:4,gres/gpu:1");
}

TEST_CASE("from v0.0.40 on, flags, lists and signals have other names than in v0.0.38") {
  const auto job_of_v42 = [](std::string_view script) {
    return job_of(script, {}, RestVersion::k42);
  };
  auto job = job_of_v42(
      "#SBATCH --exclusive --no-requeue --no-kill -H --spread-job --use-min-nodes\n"
      "#SBATCH --kill-on-invalid-dep=yes -w n1 -x n2 --wait-all-nodes=1 --nice\n"
      "#SBATCH --mail-type=BEGIN,TIME_LIMIT_90,ALL --open-mode=append --signal=B:USR1@90\n"
      "#SBATCH --gres-flags=enforce-binding --contiguous\n");
  CHECK(job["shared"] == json{"none"});
  CHECK(job["requeue"] == false);
  CHECK(job["kill_on_node_fail"] == false);
  CHECK(job["hold"] == true);
  CHECK(job["flags"] == json{"SPREAD_JOB", "PREFER_MINIMUM_NODE_COUNT", "KILL_INVALID_DEPENDENCY",
                             "GRES_BINDING_ENFORCED"});
  CHECK(job["required_nodes"] == json{"n1"});
  CHECK(job["excluded_nodes"] == json{"n2"});
  CHECK(job["wait_all_nodes"] == true);
  CHECK(job["contiguous"] == true);
  CHECK(job["nice"] == 100);
  CHECK(job["mail_type"] == json{"BEGIN", "TIME=90%", "BEGIN", "END", "FAIL", "REQUEUE",
                                 "STAGE_OUT", "INVALID_DEPENDENCY"});
  CHECK(job["open_mode"] == json{"APPEND"});
  CHECK(job["kill_warning_signal"] == "USR1");
  CHECK(job["kill_warning_flags"] == json{"BATCH_JOB"});
  CHECK(job["kill_warning_delay"]["number"] == 90);
  job = job_of_v42("#SBATCH --exclusive=user --signal=TERM --no-requeue --requeue -t UNLIMITED\n");
  CHECK(job["shared"] == json{"user"});
  CHECK(job["kill_warning_delay"]["number"] == 60);
  CHECK_FALSE(job.contains("kill_warning_flags"));
  CHECK(job["requeue"] == true);
  CHECK(job["time_limit"]["infinite"] == true);
}

TEST_CASE("a malformed value is refused, and the error says which form is expected") {
  for (const char* bad : {"--ntasks=many", "--time=soon", "--mem=much", "--signal=@5",
                          "--signal=X:USR1", "--gpus-per-task=a100", "--nice=low",
                          "--kill-on-invalid-dep=perhaps", "--gres-flags=odd", "--delay-boot=x"}) {
    const auto body = body_of("", {bad}, kEnv, RestVersion::k42);
    REQUIRE_FALSE_MESSAGE(body, bad);
    CHECK_MESSAGE(body.error().message.find("expected") != std::string::npos, bad);
  }
}

TEST_CASE(
    "dlrun chooses the newest API version that both sides know, and knows the versions of each "
    "Slurm release") {
  CHECK(newest_rest_version(std::vector<std::string>{"v0.0.45", "v0.0.42", "v0.0.46"}) ==
        RestVersion::k45);
  CHECK(newest_rest_version(std::vector<std::string>{"v0.0.38", "v0.0.39"}) == RestVersion::k38);
  CHECK_FALSE(newest_rest_version(std::vector<std::string>{"v0.0.39", "v0.0.46", "nonsense"}));
  CHECK_FALSE(newest_rest_version({}));
  for (const RestVersion version : kRestVersions)
    CHECK(parse_rest_version(rest_version_text(version)) == version);
  CHECK(rest_versions_of_release("22.05.8").size() == 1);
  CHECK(rest_versions_of_release("26.05.3").front() == RestVersion::k42);
  CHECK(rest_versions_of_release("26.05.3").back() == RestVersion::k45);
  CHECK(rest_versions_of_release("99.11.0").empty());
  CHECK(rest_versions_of_release("").empty());
}

TEST_CASE(
    "a job description with text that is not UTF-8 is refused, and the error names the variable "
    "with such text") {
  Env env;
  env.set("LATIN", "caf\xe9");
  const auto body = body_of("#!/bin/bash\n", {}, env);
  REQUIRE_FALSE(body);
  CHECK(body.error().message.find("LATIN") != std::string::npos);
  CHECK_FALSE(body_of("#!/bin/bash\necho caf\xe9\n"));
  CHECK_FALSE(body_of("#SBATCH --comment=caf\xe9\n"));
  const std::vector<std::string> none;
  const std::map<std::string, std::string> no_keys;
  for (const RestVersion version : {RestVersion::k38, RestVersion::k45}) {
    CHECK(rest_job_body({"echo\n", "job.sh", none, "/home/me", kEnv, version, no_keys}));
    CHECK_FALSE(rest_job_body({"echo\n", "job.sh", none, "/home/caf\xe9", kEnv, version, no_keys}));
    CHECK_FALSE(rest_job_body({"echo\n", "caf\xe9.sh", none, "/home/me", kEnv, version, no_keys}));
  }
}
