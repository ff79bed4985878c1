// Tests the timeline: valid JSON of all ranks, properly nested spans, and communication that
// overlaps backward.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

using nlohmann::json;

struct Event {
  std::string name;
  double begin = 0, end = 0;  // in microseconds
  json args;
};
using Track = std::vector<Event>;

constexpr double kRounding = 0.002;  // microseconds: begin and duration are each rounded to 1 ns

/// Returns the tracks of a trace by rank and number: track 0 has the steps, and each other track
/// the communication of one bucket. Checks that each rank's process is named after the rank and its
/// host.
std::map<std::pair<int, int>, Track> tracks_of(const std::filesystem::path& path) {
  const auto text = read_file(path, 1U << 26U);
  REQUIRE_MESSAGE(text.has_value(), text.error().message);
  const json parsed = json::parse(*text, nullptr, false);
  REQUIRE_FALSE(parsed.is_discarded());
  std::map<std::pair<int, int>, Track> tracks;
  std::map<int, std::string> process_names;
  for (const json& event : parsed["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "process_name")
      process_names[event["pid"].get<int>()] = event["args"]["name"].get<std::string>();
    if (event["ph"] != "X") continue;
    const auto begin = event["ts"].get<double>();
    const auto duration = event["dur"].get<double>();
    CHECK(begin >= 0);
    CHECK(duration >= 0);
    tracks[{event["pid"].get<int>(), event["tid"].get<int>()}].push_back(
        {event["name"].get<std::string>(), begin, begin + duration,
         event.value("args", json::object())});
  }
  for (const auto& [key, events] : tracks) {
    CHECK(process_names[key.first] ==
          "rank " + std::to_string(key.first) + " on \"host\" " + std::to_string(key.first));
  }
  return tracks;
}

/// Checks that every event is completely inside the event that is still open, or begins after the
/// end of that event.
void check_nesting(Track track) {
  std::ranges::sort(track, [](const Event& a, const Event& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Event> open;
  for (const Event& event : track) {
    while (!open.empty() && open.back().end <= event.begin + kRounding) open.pop_back();
    if (!open.empty())
      CHECK_MESSAGE(event.end <= open.back().end + kRounding, event.name, " in ", open.back().name);
    open.push_back(event);
  }
}

Track events_named(const Track& track, const std::string& name) {
  Track found;
  std::ranges::copy_if(track, std::back_inserter(found),
                       [&](const Event& event) { return event.name == name; });
  return found;
}

/// Calls train() with host names that contain quotes, with which the JSON must still be valid.
std::vector<Trained> train_on_quoted_hosts(int size, const TrainOptions& options,
                                           std::string_view backend = "gloo") {
  return train(
      size, options,
      [](int rank, TrainOptions&, Session& session) {
        session.host = "\"host\" " + std::to_string(rank);
      },
      backend);
}

}  // namespace

TEST_CASE(
    "a timeline has the steps of all ranks with their parts, and each bucket's all-reduce during "
    "backward") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();  // with two buckets
  options.batch = 14;
  options.micro_batch = 5;
  options.trace_steps = 4;
  options.trace_prefix = folder / "trace/attempt-0";
  options.checkpoint_dir = folder / "ckpt";
  options.checkpoint_every = 3;
  options.checkpoint_keep = 1;
  constexpr int kRanks = 3;
  const auto plain = train(kRanks, [&] {
    TrainOptions untraced = options;
    untraced.trace_steps = 0;
    untraced.checkpoint_keep = 0;
    return untraced;
  }());
  const auto traced = train_on_quoted_hosts(kRanks, options);
  REQUIRE_MESSAGE(traced[0].outcome.has_value(), message_of(traced[0]));
  CHECK(traced[0].parameters == plain[0].parameters);

  auto tracks = tracks_of(folder / "trace/attempt-0.json");
  CHECK(tracks.size() == kRanks * 3);  // the steps and two buckets for each rank
  for (int rank = 0; rank < kRanks; ++rank) {
    const Track& step_track = tracks[{rank, 0}];
    check_nesting(step_track);
    const Track steps = events_named(step_track, "step");
    REQUIRE(steps.size() == 4);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      CHECK(steps[i].args["step"].get<std::size_t>() == i + 1);
      const auto inside = [&](const Event& event) {
        return event.begin + kRounding >= steps[i].begin && event.end <= steps[i].end + kRounding;
      };
      std::map<std::string, int> parts;
      for (const Event& event : step_track)
        parts[event.name] += inside(event) && event.name != "step" ? 1 : 0;
      // 14 samples in micro-batches of 5, 5 and 4
      CHECK(parts == std::map<std::string, int>{{"backward", 3},
                                                {"checkpoint", i == 2 ? 1 : 0},
                                                {"data", 3},
                                                {"forward", 3},
                                                {"optimizer", 1},
                                                {"step", 0},
                                                {"wait for gradients", 1}});
      const auto last = [&](const char* name) {
        Track all = events_named(step_track, name);
        std::erase_if(all, [&](const Event& event) { return !inside(event); });
        REQUIRE_FALSE(all.empty());
        return all.back();
      };
      for (int bucket = 0; bucket < 2; ++bucket) {
        const Track& reduced = tracks[{rank, bucket + 1}];
        REQUIRE(reduced.size() == 4);
        CHECK(reduced[i].name == "all-reduce");
        CHECK(reduced[i].begin >= last("backward").begin);
        // The reduction starts before backward has ended.
        CHECK(reduced[i].begin <= last("backward").end + kRounding);
        CHECK(reduced[i].end <= last("wait for gradients").end + kRounding);
        CHECK(reduced[i].end >= last("wait for gradients").begin);
      }
      // The last layer's bucket comes first.
      CHECK(tracks[{rank, 1}][i].begin < tracks[{rank, 2}][i].begin);
      CHECK(tracks[{rank, 2}][0].args["bytes"].get<int>() == (784 * 24 + 24) * 4);
    }
    const auto in_rank_file =
        tracks_of(folder / ("trace/attempt-0-rank-000" + std::to_string(rank) + ".json"));
    CHECK(in_rank_file.size() == 3);
    CHECK(in_rank_file.at({rank, 0}).size() == step_track.size());
  }
}

TEST_CASE(
    "with shared arrays or sharded states, the timeline has spans for the sum of the gradients and "
    "for the exchange of new parameters") {
  for (const bool is_shared : {true, false}) {
    CAPTURE(is_shared);
    const TemporaryDirectory folder;
    TrainOptions options = small_options();
    options.has_sharded_state = !is_shared;
    options.batch = 14;
    options.trace_steps = 3;
    options.trace_prefix = folder / "t";
    const auto traced = train_on_quoted_hosts(2, options, is_shared ? "shm" : "gloo");
    REQUIRE_MESSAGE(traced[0].outcome.has_value(), message_of(traced[0]));
    const auto tracks = tracks_of(folder / "t.json");
    CHECK(tracks.size() == 4);  // two for each rank: one for its steps, one for its only bucket
    for (int rank = 0; rank < 2; ++rank) {
      const Track& step_track = tracks.at({rank, 0});
      check_nesting(step_track);
      for (const char* name : {"sum of gradients", "optimizer", "new parameters"})
        CHECK(events_named(step_track, name).size() == 3);
      CHECK(events_named(step_track, "wait for gradients").empty());
      const Track& bucket = tracks.at({rank, 1});
      check_nesting(bucket);
      REQUIRE(events_named(bucket, "reduce-scatter").size() == 3);
      REQUIRE(events_named(bucket, "all-gather").size() == 3);
      CHECK(bucket[0].args["bytes"].get<int>() == (784 * 24 + 24 + 24 * 10 + 10) * 4);
      CHECK(events_named(bucket, "reduce-scatter")[1].begin >=
            events_named(step_track, "backward")[1].end - kRounding);
      CHECK(events_named(bucket, "all-gather")[1].end <=
            events_named(step_track, "step")[1].end + kRounding);
    }
  }
}

TEST_CASE(
    "if a run has fewer steps than are to be traced, its timeline has all its steps, tests and "
    "averages of local steps") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.batch = 60;
  options.local_steps = 2;
  options.epochs_before_local_steps = 1;
  options.trace_steps = 1000;
  options.trace_prefix = folder / "t";
  const auto traced = train_on_quoted_hosts(2, options);
  REQUIRE_MESSAGE(traced[0].outcome.has_value(), message_of(traced[0]));
  const auto tracks = tracks_of(folder / "t.json");
  const Track& step_track = tracks.at({1, 0});
  check_nesting(step_track);
  CHECK(events_named(step_track, "step").size() == 6);
  CHECK(events_named(step_track, "test").size() == 2);
  // The second epoch has 3 steps. The averages follow step 2 and the last step.
  CHECK(events_named(step_track, "average").size() == 2);
  CHECK(tracks.at({1, 1}).size() == 3);  // the all-reduces of the first epoch
}

TEST_CASE(
    "a timeline that one rank cannot write ends all ranks with an error that names the rank") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder / "file", "no folder"));
  TrainOptions options = small_options();
  options.trace_steps = 2;
  options.trace_prefix = folder / "t";
  const auto ranks = train(3, options, [&](int rank, TrainOptions& mine, Session&) {
    if (rank == 1) mine.trace_prefix = folder / "file/t";
  });
  for (const Trained& rank : ranks) {
    REQUIRE_FALSE(rank.outcome.has_value());
    CHECK(has(message_of(rank), "rank 1 on host1: "));
  }
}

}  // namespace dlrun::trainer
