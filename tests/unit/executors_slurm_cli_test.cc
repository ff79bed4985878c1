#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/env.h"
#include "common/files.h"
#include "launcher/executors/executor.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

TEST_CASE("the parts of a heterogeneous job are reported as one job, with the nodes of all parts") {
  const TemporaryDirectory folder;
  const auto squeue = folder.path() / "squeue";
  std::ofstream(squeue) << "#!/bin/sh\n"
                           "echo '42+0|RUNNING|None|n1|N/A|(null)|dlrun:T'\n"
                           "echo '42+1|RUNNING|None|n[2-3]|N/A|(null)|dlrun:T'\n"
                           "echo '50|RUNNING|None|n9|N/A|(null)|(null)'\n";
  std::filesystem::permissions(squeue, std::filesystem::perms::owner_all);
  Env env;
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  const auto executor = make_slurm_cli(env);
  for (const auto max_age : {std::chrono::milliseconds(0), std::chrono::milliseconds(5000)}) {
    const auto answer = executor->query({{JobId{"", "42"}}}, max_age);
    REQUIRE(answer.has_value());
    REQUIRE(answer->reports.size() == 1);
    CHECK(answer->reports[0].job.id == "42");
    CHECK(answer->reports[0].nodes == "n1,n[2-3]");
    CHECK(answer->reports[0].nodes_of_parts.at(1) == "n[2-3]");
  }
  const auto found = executor->find("dlrun:T", "");
  REQUIRE(found.has_value());
  REQUIRE(found->has_value());
  CHECK((*found)->id == "42");
}

TEST_CASE("accounting is asked about many jobs in several commands") {
  const TemporaryDirectory folder;
  const auto add_program = [&](const std::string& name, const std::string& body) {
    std::ofstream(folder.path() / name) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(folder.path() / name, std::filesystem::perms::owner_all);
  };
  add_program("squeue", "exit 0");
  add_program("sacct",
              "echo asked >>" + (folder.path() / "asked").string() +
                  "\nfor word; do case $before in -j) ids=$word;; esac; before=$word; done\n"
                  "echo $ids | tr , '\\n' | sed 's/$/|COMPLETED|0:0|n1|Unknown|None|/'");
  Env env;
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  // One argument with all of these ids would be longer than the kernel's limit.
  constexpr std::size_t kJobCount = 12'000;
  std::vector<JobId> jobs;
  for (std::size_t i = 0; i < kJobCount; ++i)
    jobs.push_back({"", std::to_string(1'000'000'000 + i)});
  const auto answer = make_slurm_cli(env)->query(jobs, {});
  REQUIRE(answer.has_value());
  CHECK(answer->why_no_accounting == "");
  REQUIRE(answer->reports.size() == kJobCount);
  CHECK(answer->reports.back().job == jobs.back());
  CHECK(read_file(folder.path() / "asked", 1U << 10U).value_or("") == "asked\nasked\nasked\n");
}
