// Writes a run's first files. Each file of a single run is written atomically, with fsync. A sweep
// may have ten thousand points, so their files are written without fsync and then flushed by a
// single syncfs.

#include "launcher/submit/recording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/index.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/snapshot.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

using NamedText = std::pair<const char*, std::string_view>;

/// Creates a run's directory with these files, and adds the run to the index. Removes the run if
/// one of the files or the file that records the run of this submission's token (held_token.h)
/// cannot be written. Only warns if the index cannot be written.
Result<RunDirectory> record_files(const Context& context, Reporter& reporter,
                                  const std::string& runs_dir, const std::string& name,
                                  std::span<const NamedText> files, HeldToken* token) {
  auto run = create_run_directory(runs_dir, name, std::chrono::system_clock::now());
  if (!run) return run;
  // If the path of the runs folder leads through another user's link, the new run would count as
  // that user's run. The user who submits chose this folder and so trusts the link. The run's path
  // is therefore recorded with all links resolved.
  if (foreign_owner_of_path(run->path)) {
    std::error_code error, ignored;
    auto path = std::filesystem::canonical(run->path, error);
    if (error) {
      std::filesystem::remove_all(run->path, ignored);
      return fail(Errc::kIo, "{}: {}", runs_dir, error.message());
    }
    run->path = std::move(path);
  }
  // The token's file is written first, so that a later call with the same token finds the run even
  // if this call is interrupted.
  if (token != nullptr) {
    if (auto stored = token->store_run(run->path, true); !stored) {
      std::error_code ignored;
      std::filesystem::remove_all(run->path, ignored);
      return tl::unexpected(stored.error());
    }
  }
  for (const auto& [file, text] : files) {
    if (auto written = write_file_atomic(run->path / file, text); !written) {
      std::error_code ignored;
      std::filesystem::remove_all(run->path, ignored);
      return fail(written.error().code, "cannot record the run, so nothing was started: {}",
                  written.error().message);
    }
  }
  auto index = RunIndex::of_user(context.env);
  auto added = index ? index->add({run->id, run->name, run->path, run->created})
                     : Result<>(tl::unexpected(index.error()));
  run->is_indexed = added.has_value();
  if (!added) {
    reporter.warning(
        fmt::format("the run is not in your index and is found by its path only, {}: {}",
                    printable(run->path.string()), added.error().message));
  }
  return run;
}

/// Deletes the run and its index entry.
void undo_recording(const Context& context, const RunDirectory& run) {
  std::error_code ignored;
  std::filesystem::remove_all(run.path, ignored);
  if (const auto index = RunIndex::of_user(context.env))
    std::filesystem::remove(index->directory() / run.id, ignored);
}

/// Creates a file without fsync; write_points() flushes all files with one syncfs.
Result<> write_new_file(const std::filesystem::path& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.is_open())
    return fail(Errc::kIo, "cannot write {}: {}", printable(path.string()), errno_text(errno));
  if (auto written = write_all(fd.get(), text); !written)
    return within(printable(path.string()), written.error());
  return {};
}

Result<> make_directory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  return fail(Errc::kIo, "cannot make {}: {}", printable(path.string()), errno_text(errno));
}

/// Adds the plan's points and arrays to the record of a sweep.
void add_points(SweepRecord& record, const SweepPlan& plan) {
  const std::size_t first_array = record.array_count;
  record.keys = plan.keys;
  record.array_count += plan.arrays.size();
  record.max_parallel = plan.max_parallel;
  record.pack = plan.pack;
  for (const PlannedPoint& planned : plan.points) {
    SweepRecord::Point& point = record.points.emplace_back();
    point.array = first_array + planned.array;
    point.point_in_array = planned.point_in_array;
    point.values.resize(plan.keys.size());
    for (const SweptValue& value : planned.values) {
      const auto key = std::find(plan.keys.begin(), plan.keys.end(), value.key);
      point.values[static_cast<std::size_t>(key - plan.keys.begin())] = value.text;
    }
  }
}

/// Writes the arrays and points into the existing folder `parent`. record: the record of the whole
/// sweep; these arrays and points are its last ones.
Result<> write_points(const std::filesystem::path& parent, const SweepPlan& sweep,
                      const SweepRecord& record, const std::vector<SecretValue>& secrets) {
  const std::size_t first_array = record.array_count - sweep.arrays.size();
  const std::size_t first_point = record.points.size() - sweep.points.size();
  for (std::size_t i = 0; i < sweep.arrays.size(); ++i) {
    const auto folder = array_path(parent, first_array + i);
    DLRUN_TRY(make_directory(folder));
    DLRUN_TRY(write_new_file(folder / "job.sh", sweep.arrays[i].script));
  }
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const PlannedPoint& point = sweep.points[i];
    const SweepRecord::Point& recorded = record.points[first_point + i];
    const auto folder = point_path(parent, recorded);
    DLRUN_TRY(make_directory(folder));
    DLRUN_TRY(write_new_file(folder / "job.sh", point.script));
    DLRUN_TRY(write_new_file(folder / "resolved.yaml", point.resolved));
    if (!point.parameters.empty())
      DLRUN_TRY(write_new_file(folder / "parameters.json", point.parameters));
    DLRUN_TRY(
        write_new_file(folder / "submission.json", journal_of_task(record.task_of(recorded))));
    DLRUN_TRY(write_secrets(folder, secrets));
  }
  const UniqueFd fd(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open() || ::syncfs(fd.get()) != 0)
    return fail(Errc::kIo, "cannot write {}: {}", printable(parent.string()), errno_text(errno));
  return {};
}

}  // namespace

Result<RunDirectory> record_sweep(const Context& context, Reporter& reporter,
                                  const Experiment& experiment, const SweepPlan& sweep,
                                  const std::vector<SecretValue>& secrets, HeldToken* token) {
  const std::string resolved = resolved_yaml(experiment.loaded);
  const std::string plan = plan_json(experiment.plan);
  const std::array<NamedText, 3> files = {
      {{"spec.yaml", experiment.loaded.text}, {"resolved.yaml", resolved}, {"plan.json", plan}}};
  auto run =
      record_files(context, reporter, experiment.plan.runs_dir, experiment.plan.name, files, token);
  if (!run) return run;
  SweepRecord record;
  add_points(record, sweep);
  auto written = write_points(run->path, sweep, record, secrets);
  if (written) written = write_file_atomic(run->path / "sweep.json", sweep_json(record));
  if (!written) {
    undo_recording(context, *run);
    return fail(written.error().code, "cannot record the sweep, so nothing was started: {}",
                written.error().message);
  }
  return run;
}

Result<std::size_t> record_more_points(const std::filesystem::path& path, const SweepPlan& more,
                                       const std::vector<SecretValue>& secrets) {
  DLRUN_TRY_ASSIGN(auto record, read_sweep(path));
  const std::size_t first_array = record.array_count;
  add_points(record, more);
  DLRUN_TRY(write_points(path, more, record, secrets));
  DLRUN_TRY(write_file_atomic(path / "sweep.json", sweep_json(record)));
  return first_array;
}

namespace {

/// Records a script, and its spec if the job has one.
Result<RunDirectory> record_new(const Context& context, Reporter& reporter, const Job& job,
                                HeldToken* token) {
  if (!job.experiment) {
    const std::array<NamedText, 1> files = {{{"job.sh", job.script}}};
    return record_files(context, reporter, job.runs_dir, job.name, files, token);
  }
  const std::string resolved = resolved_yaml(job.experiment->loaded);
  const std::string plan = plan_json(job.experiment->plan);
  const std::string parameters = parameters_json(job.experiment->loaded);
  const std::array<NamedText, 5> files = {{{"spec.yaml", job.experiment->loaded.text},
                                           {"resolved.yaml", resolved},
                                           {"plan.json", plan},
                                           {"job.sh", job.script},
                                           {"parameters.json", parameters}}};
  return record_files(context, reporter, job.runs_dir, job.name,
                      std::span(files).first(parameters.empty() ? 4 : 5), token);
}

/// Records the files of the run that the job repeats.
Result<RunDirectory> record_repeated_run(const Context& context, Reporter& reporter, const Job& job,
                                         HeldToken* token) {
  constexpr std::array kFiles = {"spec.yaml", "resolved.yaml", "plan.json", "job.sh",
                                 "parameters.json"};
  constexpr std::size_t kLimit = 16U << 20U;
  std::array<std::string, kFiles.size()> texts;
  std::array<NamedText, kFiles.size()> files;
  std::size_t count = 0;
  for (const char* name_of_file : kFiles) {
    auto text = read_untrusted(job.earlier_run / name_of_file, kLimit, Links::kRefuse);
    if (!text && text.error().code == Errc::kNotFound)
      continue;  // a script written by hand has no spec
    if (!text) return tl::unexpected(text.error());
    texts[count] = std::move(*text);
    files[count] = {name_of_file, texts[count]};
    ++count;
  }
  return record_files(context, reporter, job.runs_dir, job.name, std::span(files).first(count),
                      token);
}

}  // namespace

Result<RunDirectory> record_run(const Context& context, Reporter& reporter, const Job& job,
                                HeldToken* token) {
  return job.source == Job::Source::kRun ? record_repeated_run(context, reporter, job, token)
                                         : record_new(context, reporter, job, token);
}

Result<std::string> copy_code_into_run(const Context& context,
                                       const std::filesystem::path& code_dir,
                                       const std::filesystem::path& runs_dir,
                                       const RunDirectory& run) {
  const auto snapshot = take_snapshot(code_dir, run.path, runs_dir, context.env);
  if (snapshot) return snapshot->folder.string();
  undo_recording(context, run);
  return fail(snapshot.error().code, "code.snapshot: {}", snapshot.error().message);
}

}  // namespace dlrun
