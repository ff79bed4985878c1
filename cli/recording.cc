#include "cli/recording.h"

#include <array>
#include <chrono>
#include <utility>

#include "cli/output.h"
#include "common/files.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/runs/index.h"
#include "launcher/runs/snapshot.h"

namespace dlrun {
namespace {

using NamedText = std::pair<const char*, std::string_view>;

Result<RunDirectory> record(const Cli& cli, const std::string& runs_dir, const std::string& name,
                            std::span<const NamedText> files) {
  auto run = create_run_directory(runs_dir, name, std::chrono::system_clock::now());
  if (!run) return run;
  for (const auto& [file, text] : files) {
    if (auto written = write_file_atomic(run->path / file, text); !written) {
      std::error_code ignored;
      std::filesystem::remove_all(run->path, ignored);
      return fail(written.error().code, "cannot record the run, so nothing was started: {}", written.error().message);
    }
  }
  auto index = RunIndex::of_user(cli.env);
  auto added =
      index ? index->add({run->id, run->name, run->path, run->created}) : Result<>(tl::unexpected(index.error()));
  if (!added) {
    print_warning(cli, fmt::format("the run is not in your index and is found by its path only, {}: {}",
                                   run->path.string(), added.error().message));
  }
  return run;
}

}  // namespace

Result<RunDirectory> record_run(const Cli& cli, const Prepared& prepared, std::string_view script) {
  const std::string resolved = resolved_yaml(prepared.loaded);
  const std::string plan = plan_json(prepared.plan);
  const std::array<NamedText, 4> files = {
      {{"spec.yaml", prepared.loaded.text}, {"resolved.yaml", resolved}, {"plan.json", plan}, {"job.sh", script}}};
  return record(cli, prepared.plan.runs_dir, prepared.plan.name, files);
}

Result<RunDirectory> record_script(const Cli& cli, const std::string& runs_dir, const std::string& name,
                                   std::string_view script) {
  const auto carried = carried_spec(script);
  const std::string_view resolved = carried ? std::string_view(carried->yaml) : std::string_view();
  const std::array<NamedText, 2> files = {{{"job.sh", script}, {"resolved.yaml", resolved}}};
  return record(cli, runs_dir, name, std::span(files).first(carried ? 2 : 1));
}

Result<RunDirectory> record_again(const Cli& cli, const std::string& runs_dir, const std::string& name,
                                  const std::filesystem::path& of_run) {
  constexpr std::array kFiles = {"spec.yaml", "resolved.yaml", "plan.json", "job.sh"};
  constexpr std::size_t kLimit = 16U << 20U;
  std::array<std::string, kFiles.size()> texts;
  std::array<NamedText, kFiles.size()> files;
  std::size_t count = 0;
  for (const char* name_of_file : kFiles) {
    auto text = read_file(of_run / name_of_file, kLimit);
    if (!text && text.error().code == Errc::kNotFound) continue;  // a script that was written by hand has no spec
    if (!text) return tl::unexpected(text.error());
    texts[count] = std::move(*text);
    files[count] = {name_of_file, texts[count]};
    ++count;
  }
  return record(cli, runs_dir, name, std::span(files).first(count));
}

Result<std::string> snapshot_for(const Cli& cli, const LaunchPlan& plan, const RunDirectory& run) {
  const auto snapshot = take_snapshot(plan.folder, run.path, plan.runs_dir, cli.env);
  if (snapshot) return snapshot->folder.string();
  std::error_code ignored;
  std::filesystem::remove_all(run.path, ignored);
  if (const auto index = RunIndex::of_user(cli.env)) std::filesystem::remove(index->directory() / run.id, ignored);
  return fail(snapshot.error().code, "code.snapshot: {}", snapshot.error().message);
}

}  // namespace dlrun
