// Tests every writer whose files must survive a machine crash, on a disk that keeps only synced
// data. A step that dlrun has reported as done must remain, and dlrun's readers must see the
// complete old or the complete new state.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/sha256.h"
#include "launcher/download/downloader.h"
#include "launcher/runs/index.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/lost_end.h"
#include "launcher/runs/run_record.h"
#include "runtime/agent/event_compaction.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/retry.h"
#include "runtime/agent/run_claim.h"
#include "runtime/trainer/checkpoint/checkpoint.h"
#include "tests/crash/writer.h"
#include "tests/python_server.h"

namespace dlrun::crash {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

constexpr std::size_t kMaxTextBytes = 1U << 20U;

std::string text_of(const fs::path& file) {
  const auto text = read_file(file, kMaxTextBytes);
  return text ? *text : "(" + text.error().message + ")";
}

/// Fails the test if `result` is an error.
template <typename T>
void must(const Result<T>& result) {
  if (!result) FAIL(result.error().message);
}

constexpr auto kDrainLimit = std::chrono::seconds(60);
constexpr std::string_view kSyncedAgain = "the folder is synced again before success is reported";

}  // namespace

TEST_CASE(
    "crash: an atomic write leaves the old or the new file, and the new one remains after "
    "success is reported") {
  const std::string old_text = "the old one", new_text(10'000, 'n');
  check_writer({[&](const fs::path& folder) { must(write_file_atomic(folder / "file", old_text)); },
                [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  DLRUN_TRY(write_file_atomic(folder / "file", new_text));
                  disk.report_done("written");
                  return {};
                },
                [&](const fs::path& folder, const Names& reported) -> std::string {
                  const std::string text = text_of(folder / "file");
                  if (text == new_text || (text == old_text && !reported.contains("written")))
                    return {};
                  return "the file has the text " + text.substr(0, 100);
                }});
}

TEST_CASE(
    "crash: a file that is created exclusively is complete or missing, and remains after success "
    "is reported") {
  const std::string text(10'000, 'n');
  check_writer({{},
                [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  DLRUN_TRY(create_file_exclusive(folder / "file", text));
                  disk.report_done("written");
                  return {};
                },
                [&](const fs::path& folder, const Names& reported) -> std::string {
                  if (!fs::exists(folder / "file"))
                    return reported.contains("written") ? "the file is not there" : "";
                  return text_of(folder / "file") == text ? "" : "the file holds something else";
                }});
}

TEST_CASE(
    "crash: new folders, and the file that is written into them, remain after success is "
    "reported") {
  check_writer({{},
                [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  DLRUN_TRY(make_private_directories(folder / "a/b/c"));
                  DLRUN_TRY(write_file_atomic(folder / "a/b/c/file", "text"));
                  disk.report_done("written");
                  return {};
                },
                [&](const fs::path& folder, const Names& reported) -> std::string {
                  return !reported.contains("written") || text_of(folder / "a/b/c/file") == "text"
                             ? ""
                             : "the file is gone";
                }});
}

TEST_CASE("crash: a submission's journal has the intent or the job, and a reported state remains") {
  const auto run_of = [](const fs::path& folder) { return folder / "runs/mnist-1"; };
  Submission submission;
  submission.token = "0123456789abcdef";
  submission.argv = {"sbatch", "job.sh"};
  check_writer({{},
                [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  DLRUN_TRY(make_private_directories(run_of(folder)));
                  DLRUN_TRY(write_submission(run_of(folder), submission));
                  disk.report_done("intent");
                  Submission sent = submission;
                  sent.state = Submission::State::kSubmitted;
                  sent.job = {"alps", "42"};
                  DLRUN_TRY(write_submission(run_of(folder), sent));
                  disk.report_done("submitted");
                  return {};
                },
                [&](const fs::path& folder, const Names& reported) -> std::string {
                  const auto read = read_submission(run_of(folder));
                  if (!read) return read.error().message;
                  if (!*read) return reported.contains("intent") ? "the journal is gone" : "";
                  if ((*read)->token != submission.token) return "another token";
                  if ((*read)->state == Submission::State::kSubmitted)
                    return (*read)->job.id == "42" ? "" : "no job";
                  return reported.contains("submitted") ? "the job is forgotten" : "";
                }});
}

TEST_CASE(
    "crash: a claim is complete or missing, its job starts again with a new attempt, and another "
    "job cannot claim the run") {
  const agent::JobIdentity job{"alps", "42", "feed"}, other{"alps", "43", "feed"};
  const auto run_of = [](const fs::path& folder) { return folder / "runs/mnist-1"; };
  check_writer(
      {{},
       [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
         for (const char* attempt : {"attempt 0", "attempt 1"}) {
           const auto claimed = agent::claim_run(run_of(folder), job, "mnist", 0);
           if (!claimed) return tl::unexpected(claimed.error());
           disk.report_done(attempt);
         }
         return {};
       },
       [&](const fs::path& folder, const Names& reported) -> std::string {
         const int attempts = static_cast<int>(reported.size());
         const auto claim = read_claim(run_of(folder));
         if (!claim) return claim.error().message;
         if (*claim ? (*claim)->job.id != "42" : attempts > 0)
           return "the claim is gone, or belongs to another job";
         if (attempts > 0 && text_of(run_of(folder) / "origin").find("\"42\"") == std::string::npos)
           return "the file `origin` is gone";
         if (attempts > 0 && agent::claim_run(run_of(folder), other, "mnist", 0))
           return "another job claims the run";
         const auto again = agent::claim_run(run_of(folder), job, "mnist", 0);
         if (!again) return again.error().message;
         return again->attempt >= attempts ? "" : "an attempt's number is used twice";
       }},
      {{"fsync runs/mnist-1, 1", kSyncedAgain},
       {"fsync runs/mnist-1, 2", kSyncedAgain},
       {"fsync runs/mnist-1, 4", kSyncedAgain},
       {"fsync runs/mnist-1/.claim.*.tmp, 2",
        "the claim exists already, so this temporary file does not become the claim"},
       {"rename runs/mnist-1/claim, 1", "the second attempt writes the same claim"}});
}

TEST_CASE(
    "crash: a compacted record keeps the events that affect decisions, and later events remain") {
  const auto path_of = [](const fs::path& folder) { return folder / "events.jsonl"; };
  const auto event = [](const char* kind, int number) {
    return to_checked_line(
        {{"t", "2026-11-21T12:00:00.000Z"}, {"event", kind}, {"attempt", 0}, {"step", number}});
  };
  check_writer({[&](const fs::path& folder) {
                  std::string text = event("claimed", 0) + event("restarting", 0);
                  for (int i = 0; i < 100; ++i) text += event("progress", i);
                  must(write_file_atomic(path_of(folder), text));
                },
                [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  const auto file = agent::compact_events(path_of(folder));
                  if (!file) return tl::unexpected(file.error());
                  DLRUN_TRY(write_all(file->file.get(), event("ended", 0)));
                  if (::fdatasync(file->file.get()) != 0) return fail(Errc::kIo, "fdatasync");
                  disk.report_done("ended");
                  return {};
                },
                [&](const fs::path& folder, const Names& reported) -> std::string {
                  const auto history = agent::read_history_file(path_of(folder), false);
                  if (!history) return history.error().message;
                  if (history->history.restart_count() != 1) return "a restart is forgotten";
                  if (text_of(path_of(folder)).find("\"step\":99") == std::string::npos)
                    return "the last progress event is gone";
                  const bool has_end =
                      text_of(path_of(folder)).find("\"ended\"") != std::string::npos;
                  return has_end || !reported.contains("ended") ? "" : "the end is gone";
                }});
}

TEST_CASE("crash: an index entry is complete or missing, and remains after success is reported") {
  const auto index_of = [](const fs::path& folder) {
    return RunIndex(folder / "state/dlrun/runs");
  };
  check_writer(
      {{},
       [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
         for (const char* id : {"mnist-1", "mnist-2"}) {
           DLRUN_TRY(index_of(folder).add({id, "mnist", folder / id, "2026-01-01T00:00:00.000Z"}));
           disk.report_done(id);
         }
         return {};
       },
       [&](const fs::path& folder, const Names& reported) -> std::string {
         const auto listing = index_of(folder).list();
         if (!listing) return listing.error().message;
         if (!listing->damaged.empty()) return listing->damaged.front();
         Names found;
         for (const IndexEntry& entry : listing->entries) found.insert(entry.id);
         for (const std::string& id : reported) {
           if (!found.contains(id)) return id + " is gone";
         }
         return {};
       }});
}

TEST_CASE("crash: a download is complete or missing, and remains after success is reported") {
  const PythonServer server;
  const std::string text(20'000, 'd');
  server.serve("f", text);
  const Download download{server.url("f"), sha256_of_text(text), "f", {}};
  check_writer({{},
                [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  auto downloader = Downloader::in(folder / "data/mnist", {});
                  if (!downloader) return tl::unexpected(downloader.error());
                  const auto fetched = downloader->fetch(download);
                  if (!fetched) return tl::unexpected(fetched.error());
                  disk.report_done("fetched");
                  return {};
                },
                [&](const fs::path& folder, const Names& reported) -> std::string {
                  const auto found = is_downloaded(folder / "data/mnist", download);
                  if (!found) return found.error().message;
                  return *found || !reported.contains("fetched") ? "" : "the download is gone";
                }});
}

TEST_CASE(
    "crash: events remain once drain() has succeeded, and events after an incomplete one can be "
    "read") {
  const auto events_of = [](const fs::path& folder) { return folder / "run/events.jsonl"; };
  check_writer({[](const fs::path& folder) { fs::create_directory(folder / "run"); },
                [&](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  auto log = agent::EventLog::open(events_of(folder));
                  if (!log) return tl::unexpected(log.error());
                  const std::vector<RunEvent> written{events::Claimed{.job = "42"},
                                                      events::Joined{.ranks = 2},
                                                      events::Ended{.state = EndState::kCompleted}};
                  for (const auto& event : written) {
                    log->record(event);
                    if (!log->drain(kDrainLimit)) return fail(Errc::kTimeout, "the disk is slow");
                    disk.report_done(std::string(kind_of(event)));
                  }
                  return {};
                },
                [&](const fs::path& folder, const Names& reported) -> std::string {
                  const auto record = read_events(folder / "run");
                  if (!record) return record.error().message;
                  if (record->damaged_lines > 0) return "a damaged line";
                  if (reported.contains("claimed") && record->claimed_by != "42")
                    return "the claim is gone";
                  if (reported.contains("joined") && !record->have_ranks_joined)
                    return "the ranks are gone";
                  if (reported.contains("ended") && !record->ended) return "the end is gone";
                  auto log = agent::EventLog::open(events_of(folder));
                  if (!log) return log.error().message;
                  log->record(events::Ended{.state = EndState::kFailed});
                  if (!log->drain(kDrainLimit)) return "the disk is slow";
                  const auto after = read_events(folder / "run");
                  return after && after->ended && after->damaged_lines == 0
                             ? ""
                             : "an event after the crash is not read";
                }});
}

TEST_CASE(
    "crash: the end that is recorded for a run without a lead remains after success is reported") {
  check_writer({[](const fs::path& folder) { fs::create_directory(folder / "run"); },
                [](const fs::path& folder, LazyDisk& disk) -> Result<> {
                  const auto ended = write_lost_end(folder / "run", 1, "lead is gone");
                  if (!ended) return tl::unexpected(ended.error());
                  disk.report_done("ended");
                  return {};
                },
                [](const fs::path& folder, const Names& reported) -> std::string {
                  const auto record = read_events(folder / "run");
                  if (!record) return record.error().message;
                  return record->ended || !reported.contains("ended") ? "" : "the end is gone";
                }});
}

namespace {

const trainer::CheckpointLayout kLayout{{{"layers.0.weight", {3, 2}, 0}, {"layers.0.bias", {2}, 6}},
                                        {{"layers.1.running_mean", {2}, 0}}};
const std::vector<std::string> kOptimizerArrayNames{"m"};

trainer::TrainingState state_at(std::uint64_t step) {
  trainer::TrainingState state;
  state.position = {step, 0, step};
  state.seed = 1;
  state.optimizer = "adam";
  state.optimizer_array_names = kOptimizerArrayNames;
  state.parameters.assign(8, static_cast<float>(step));
  state.running_statistics.assign(2, static_cast<float>(step));
  state.optimizer_arrays = {std::vector<float>(8, static_cast<float>(step))};
  return state;
}

Writer checkpoint_writer(std::size_t keep) {
  const auto checkpoints_in = [keep](const fs::path& folder) {
    return trainer::CheckpointFolder(folder / "runs/mnist-1/checkpoints", keep,
                                     [] { return Result<>(); });
  };
  return {{},
          [checkpoints_in](const fs::path& folder, LazyDisk& disk) -> Result<> {
            for (const std::uint64_t step : {10U, 20U, 30U}) {
              DLRUN_TRY(checkpoints_in(folder).save(state_at(step), kLayout));
              disk.report_done(std::to_string(step));
            }
            return {};
          },
          [checkpoints_in](const fs::path& folder, const Names& reported) -> std::string {
            const std::uint64_t reported_step = reported.size() * 10;
            std::vector<std::string> skipped;
            const auto loaded =
                checkpoints_in(folder).load_newest(kLayout, "adam", kOptimizerArrayNames, skipped);
            if (!loaded) return loaded.error().message;
            if (!*loaded) return reported_step == 0 ? "" : "no checkpoint is left";
            const trainer::TrainingState want = state_at((*loaded)->position.step);
            if (want.position.step < reported_step) return "the newest checkpoint is gone";
            if ((*loaded)->parameters != want.parameters ||
                (*loaded)->running_statistics != want.running_statistics ||
                (*loaded)->optimizer_arrays != want.optimizer_arrays)
              return "the checkpoint holds something else";
            const std::string latest = text_of(folder / "runs/mnist-1/checkpoints/latest");
            if (reported_step > 0 && latest < fmt::format("step-{:08}\n", reported_step))
              return "`latest` says " + latest;
            return {};
          }};
}

/// Saving a checkpoint syncs a folder whenever a name in it changes. The last of these syncs also
/// covers the earlier changes, so the earlier syncs are unneeded.
const std::vector<UnneededGuard> kUnneededForCheckpoints{
    {"fsync runs/mnist-1/checkpoints, 1", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints/step-00000010, 1", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints/step-00000010, 2", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints, 3", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints/step-00000020, 1", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints/step-00000020, 2", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints, 5", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints/step-00000030, 1", kSyncedAgain},
    {"fsync runs/mnist-1/checkpoints/step-00000030, 2", kSyncedAgain}};

}  // namespace

TEST_CASE("crash: the newest checkpoint remains if one checkpoint is kept") {
  check_writer(checkpoint_writer(1), kUnneededForCheckpoints);
}

TEST_CASE("crash: the newest checkpoint remains if two checkpoints are kept") {
  check_writer(checkpoint_writer(2), kUnneededForCheckpoints);
}

TEST_CASE(
    "crash: if the newest checkpoint is unreadable for a moment, loading fails with an I/O error "
    "and loads no older one") {
  const TemporaryDirectory folder;
  const trainer::CheckpointFolder checkpoints(folder.path(), 2, [] { return Result<>(); });
  for (const std::uint64_t step : {10U, 20U}) must(checkpoints.save(state_at(step), kLayout));
  std::vector<std::string> skipped;
  for (const char* file : {"manifest.json", "model.safetensors", "optimizer.safetensors"}) {
    CAPTURE(file);
    const UnreadableFile unreadable(folder / "step-00000020" / file);
    const auto loaded = checkpoints.load_newest(kLayout, "adam", kOptimizerArrayNames, skipped);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == Errc::kIo);
    CHECK(loaded.error().message.find(file) != std::string::npos);
    CHECK(loaded.error().message.find("Input/output error") != std::string::npos);
    CHECK(skipped.empty());
  }
  const auto loaded = checkpoints.load_newest(kLayout, "adam", kOptimizerArrayNames, skipped);
  REQUIRE(loaded);
  CHECK((*loaded)->position.step == 20);
}

}  // namespace dlrun::crash
