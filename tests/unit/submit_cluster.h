#pragma once
// A simulated Slurm for tests of launcher/submit: its commands are scripts in a temporary folder.

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files.h"
#include "launcher/submit/check_report.h"
#include "launcher/submit/submitting.h"
#include "launcher/submit/user_settings.h"
#include "tests/temporary_directory.h"

namespace dlrun {

/// A reporter that stores the texts of the diagnostics, warnings and notes that it receives.
class RecordingReporter final : public Reporter {
 public:
  std::vector<std::string> messages;
  void diagnostics(const std::vector<Diagnostic>& found) override {
    for (const Diagnostic& one : found) messages.push_back(one.message);
  }
  void warning(std::string_view message) override { messages.emplace_back(message); }
  void note(std::string_view message) override { messages.emplace_back(message); }
  void progress(const std::filesystem::path&, const std::string&,
                const DownloadProgress&) override {}
  void progress_ended() override {}
  void downloaded(const std::filesystem::path&, std::size_t, std::int64_t) override {}
};

/// A simulated cluster that gives every job the id 7, and whose squeue lists no jobs. Its sbatch
/// appends the arguments of each submission to the file `called`.
struct Cluster {
  TemporaryDirectory folder;
  Context context;
  RecordingReporter reporter;
  Cluster() {
    std::filesystem::create_directory(folder / "slurm");
    write_program("sbatch",
                  "case \"$*\" in *--help*) echo '  --account=name'; exit 0;; *) echo \"$*\" >>" +
                      (folder / "called").string() + "; echo 7;; esac");
    write_program("squeue", "exit 0");
    write_program("sacct", "exit 0");
    context.env.set("HOME", folder.path().string());
    context.env.set("PATH", (folder / "slurm").string() + ":/usr/bin:/bin");
    context.current_dir = folder.path();
    context.bin_dir = folder / "bin";
    context.tools = {"hash", {}};
  }
  /// Writes a shell script as the program `name` on the PATH, for example as sbatch.
  void write_program(const std::string& name, const std::string& body) {
    const auto file = folder / "slurm" / name;
    std::ofstream(file) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  /// Writes the spec x.yaml of a job of one minute, and the lines `more` after it.
  void write_x_yaml(const std::string& more) {
    std::ofstream(folder / "x.yaml") << "name: x\nresources: {time: 1m, output: o-%j.txt}\n"
                                     << "launch: {agent: false, command: [\"true\"]}\n"
                                     << more;
  }
  /// Checks and submits the job or the sweep of a file, which is a spec or a script.
  Result<Submitted> submit(const std::string& file) {
    Provenance provenance(folder.path(), context.env, {"test"}, "hash");
    auto job = job_of_file(context, reporter, {file, {}, {}});
    if (!job) return tl::unexpected(job.error());
    auto sweep = plan_arrays(context, *job, true);
    if (!sweep) return tl::unexpected(sweep.error());
    const SweepPlan* arrays = *sweep ? &**sweep : nullptr;
    RunInspector inspector(context.env, known_servers(context));
    const auto checked =
        check_job(context, reporter, inspector, *job, arrays, NextStep::kSubmission);
    if (!checked) return tl::unexpected(checked.error());
    return arrays != nullptr
               ? submit_sweep(context, reporter, inspector, std::move(*job), std::move(**sweep),
                              *checked, provenance)
               : submit_job(context, reporter, inspector, std::move(*job), *checked, provenance);
  }
  Result<Submitted> submit_again(const std::string& run) {
    RunInspector inspector(context.env, known_servers(context));
    return resubmit(context, reporter, inspector, run, true);
  }
  /// Returns the text of the file; empty if the file cannot be read.
  [[nodiscard]] std::string text(const std::filesystem::path& file) const {
    return read_file(file, 1U << 20U).value_or("");
  }
};

}  // namespace dlrun
