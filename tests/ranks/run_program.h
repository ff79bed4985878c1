#pragma once
// Runs the trainer's programs as processes, with or without mpirun.

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/env.h"
#include "common/subprocess.h"

namespace dlrun::trainer {

using Words = std::vector<std::string>;

/// Runs argv in `directory` to its end, for at most 100 s, without variables of a job or a
/// launcher. Open MPI is configured to use only this machine, and to keep its own files in
/// `directory`. By default, all jobs of Open MPI share a folder of /tmp, and a job that starts
/// there fails if another job ends at that moment.
inline FinishedCommand run(Words argv, const std::filesystem::path& directory) {
  Command command;
  command.argv = std::move(argv);
  command.env = Env::of_process();
  command.env.remove_matching({"DLRUN_*", "SLURM_*", "PMI*", "OMPI_*"}, {});
  for (const auto& [name, value] : {std::pair("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                    {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                    {"OMPI_MCA_pml", "ob1"},
                                    {"OMPI_MCA_btl", "self,vader,tcp"},
                                    {"PMIX_MCA_gds", "hash"}}) {
    command.env.set(name, value);
  }
  command.env.set("OMPI_MCA_orte_tmpdir_base", directory.string());
  command.directory = directory.string();
  command.timeout = std::chrono::seconds(100);
  auto finished = run_command(command);
  REQUIRE_MESSAGE(finished.has_value(), finished.error().message);
  return *finished;
}

}  // namespace dlrun::trainer
