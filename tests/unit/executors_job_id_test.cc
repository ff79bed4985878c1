#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/env.h"
#include "common/files.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/squeue_query.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

namespace {

const std::string kInvalidSlurmIds[] = {"",
                                        "--me",
                                        "-u",
                                        "42;43",
                                        "42,43",
                                        "42 43",
                                        "42_",
                                        "_42",
                                        "42_7_1",
                                        "42_-1",
                                        "+42",
                                        "0x2a",
                                        "4 2",
                                        "../42",
                                        "42/",
                                        "42?x=1",
                                        "42\n",
                                        "42.0",
                                        "42+1",
                                        "all",
                                        "*",
                                        "42_[1",
                                        std::string("42\0x", 4),
                                        "\xd9\xa4\xd9\xa2",
                                        "99999999999",
                                        "42_99999999999"};

/// An environment whose Slurm commands only record each call.
struct RecordingSlurm {
  TemporaryDirectory folder;
  Env env;
  RecordingSlurm() {
    for (const char* name : {"squeue", "sacct", "scancel", "scontrol"}) {
      const auto program = folder.path() / name;
      std::ofstream(program) << "#!/bin/sh\nprintf '%s\\n' \"$0 $*\" >>"
                             << (folder.path() / "calls").string() << "\n";
      std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    }
    env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
    env.set("XDG_RUNTIME_DIR", folder.path().string());
  }
  [[nodiscard]] std::string calls() const {
    return read_file(folder.path() / "calls", 1U << 20U).value_or("");
  }
};

}  // namespace

TEST_CASE("a Slurm job id is a number, or two numbers with an underscore between them") {
  for (const char* id : {"1", "42", "42_7", "4294967294_0"}) {
    CHECK(is_slurm_job_id(id));
    CHECK(check_job_id({"", id}).has_value());
    CHECK(check_job_id({"alpine", id}).has_value());
    CHECK_FALSE(check_job_id({std::string(kLocalCluster), id}).has_value());
  }
  for (const std::string& id : kInvalidSlurmIds) {
    CAPTURE(id);
    CHECK_FALSE(is_slurm_job_id(id));
    CHECK(check_job_id({"", id}).error().code == Errc::kInvalid);
  }
}

TEST_CASE("a local job's id is a host, a pid and a start time") {
  const auto job = parse_local_job("login-1.example.org:4242:123456");
  REQUIRE(job.has_value());
  CHECK(job->host == "login-1.example.org");
  CHECK(job->pid == 4242);
  CHECK(job->start_ticks == 123456);
  for (const char* id :
       {"h:0:5", "h:-1:5", "h:-4242:5", ":42:5", "-h:42:5", "h:42", "h:42:5:6", "h:42:x", "h: 42:5",
        "h:99999999999:5", "h:4294967297:5", "42", "h/../x:42:5"}) {
    CAPTURE(id);
    CHECK_FALSE(parse_local_job(id).has_value());
    CHECK_FALSE(check_job_id({std::string(kLocalCluster), id}).has_value());
  }
}

TEST_CASE(
    "a list of clusters has only letters, digits, '.', '_', '-' and commas, and no name that looks "
    "like an option") {
  for (const char* name : {"", "alpine", "alpine-2.x_y", "a,b", "all"})
    CHECK(is_cluster_list(name));
  for (const char* name :
       {"-M", "--me", "a,-b", "a,", ",a", "a b", "a;b", "a/b", "$(id)", "a\nb"}) {
    CAPTURE(name);
    CHECK_FALSE(is_cluster_list(name));
    CHECK_FALSE(check_job_id({name, "42"}).has_value());
  }
}

TEST_CASE("an invalid job id or cluster name never reaches a command of Slurm") {
  const RecordingSlurm slurm;
  const auto executor = make_slurm_cli(slurm.env);
  for (const std::string& id : kInvalidSlurmIds) {
    CAPTURE(id);
    const JobId job{"", id};
    CHECK(executor->cancel(job, "t").error().code == Errc::kInvalid);
    CHECK(executor->query({{job}}, {}).error().code == Errc::kInvalid);
    CHECK(executor->query({{job}}, std::chrono::milliseconds(5000)).error().code == Errc::kInvalid);
    CHECK_FALSE(squeue_report_on(slurm.env, job, std::chrono::seconds(1)).has_value());
  }
  for (const char* cluster : {"--me", "-u root", "a b"}) {
    CHECK(executor->cancel({cluster, "42"}, "t").error().code == Errc::kInvalid);
    CHECK(executor->find("dlrun:x", cluster).error().code == Errc::kInvalid);
  }
  CHECK(slurm.calls().empty());
  CHECK(executor->cancel({"", "42"}, "t").has_value());
  CHECK(slurm.calls().find("scancel 42") != std::string::npos);
}

TEST_CASE("an invalid job id never becomes part of a slurmrestd URL") {
  const TemporaryDirectory folder;
  const auto executor =
      make_slurmrestd(Env::of_process(), {"unix:" + (folder.path() / "none").string(), ""});
  for (const std::string& id : kInvalidSlurmIds) {
    CAPTURE(id);
    const JobId job{"", id};
    CHECK(executor->cancel(job, "t").error().code == Errc::kInvalid);
    CHECK(executor->query({{job}}, {}).error().code == Errc::kInvalid);
  }
  CHECK(executor->cancel({"", "42"}, "t").error().code == Errc::kUnavailable);
}
