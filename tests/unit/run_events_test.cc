// Tests the bytes of each event of a run's record, and that the event can be read back from them.
#include "common/run_events.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/json_lines.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTime = "2026-11-21T12:00:00.000Z";

struct Line {
  RunEvent event;
  std::string fields;  ///< as the record has them after t, event and attempt
};

/// Returns one line of each kind, and of each form of a kind.
std::vector<Line> lines() {
  const events::RankFailed failed{.rank = 3,
                                  .host = "n2",
                                  .pid = 4711,
                                  .code = 137,
                                  .signal = "SIGKILL",
                                  .error = "out of memory"};
  return {
      {events::Claimed{
           .job = "42", .cluster = "alps", .host = "n1", .pid = 7, .was_claimed_before = true},
       R"("job":"42","cluster":"alps","host":"n1","pid":7,"again":true)"},
      {events::Started{.lead = "10.0.0.1:5000", .argv = {"srun", "x"}},
       R"("ranks":0,"lead":"10.0.0.1:5000","argv":["srun","x"])"},
      {events::Started{.ranks = 2, .lead = "a", .checks = "gpu,disk"},
       R"("ranks":2,"lead":"a","argv":[],"checks":"gpu,disk")"},
      {events::Joined{.ranks = 8, .hosts = "n[1-2]", .seconds = 0.25},
       R"("ranks":8,"hosts":"n[1-2]","seconds":0.25)"},
      {events::CollectivesChecked{.ranks = 8, .seconds = 50}, R"("ranks":8,"seconds":50.0)"},
      {events::Staging{.nodes = 4}, R"("nodes":4)"},
      {events::Staged{.nodes = 4, .files = 12, .bytes = 4096, .seconds = 1.5},
       R"("nodes":4,"files":12,"bytes":4096,"seconds":1.5)"},
      {events::OutputsCopied{.nodes = 2, .files = 3, .bytes = 10, .seconds = 0.5},
       R"("nodes":2,"files":3,"bytes":10,"seconds":0.5)"},
      {events::RanksMissing{.ranks = {2, 4}, .seconds = 600}, R"("ranks":[2,4],"seconds":600.0)"},
      {events::Progress{.step = 7, .steps = 9, .loss = 2, .work_ms = 3.5},
       R"("step":7,"steps":9,"loss":2,"work_ms":3.5)"},
      {events::Progress{.epoch = 1, .loss = 2.0}, R"("epoch":1,"loss":2.0)"},
      {events::FinalReports{
           .values = {{"test_accuracy", 0.5}, {"parameters", "3f"}, {"done", true}}},
       R"("test_accuracy":0.5,"parameters":"3f","done":true)"},
      {events::RankStatistics{.ranks = 2,
                              .cpu = events::Spread<double>{1, 1.5, 2},
                              .rss_bytes = events::Spread<std::int64_t>{1, 2, 3},
                              .gpu_watts = 812.5,
                              .slow_rank_count = 2,
                              .slowest_ranks = {{.rank = 1, .host = "n1", .lag = 4, .work_ms = 30},
                                                {.rank = 0, .host = "n1"}}},
       R"("ranks":2,"cpu":[1.0,1.5,2.0],"rss_bytes":[1,2,3],"gpu_watts":812.5,"slow_ranks":2,"slow":)"
       R"([{"rank":1,"host":"n1","lag":4,"work_ms":30.0},{"rank":0,"host":"n1","lag":0}])"},
      {events::Signal{
           .signal = "SIGUSR1", .where = "lead", .decision = SignalDecision::kCheckpoint},
       R"("signal":"SIGUSR1","where":"lead","word":"checkpoint")"},
      {failed, R"("rank":3,"host":"n2","pid":4711,"code":137,"signal":"SIGKILL",)"
               R"("error":"out of memory")"},
      {events::Warning{.message = "m"}, R"("message":"m")"},
      {events::Warning{.message = "m", .rank = 0, .host = "n1"},
       R"("message":"m","rank":0,"host":"n1")"},
      {events::Autopsy{
           .ranks = 4,
           .groups = {{.ranks = "1", .count = 1, .hosts = "n1", .frames = {"wait", "main"}}},
           .outliers = 1},
       R"("ranks":4,"groups":[{"ranks":"1","count":1,"hosts":"n1","frames":["wait","main"]}],)"
       R"("odd":1)"},
      {events::AttemptEnd{.code = 0, .reason = EndReason::kOk, .seconds = 1.5},
       R"("code":0,"reason":"ok","seconds":1.5)"},
      {events::AttemptEnd{.code = 77, .reason = EndReason::kLaunchFailed, .cause = Cause::kImage},
       R"("code":77,"reason":"launch_failed","cause":"image")"},
      {events::AttemptEnd{.code = 137,
                          .reason = EndReason::kRankFailed,
                          .cause = Cause::kNodeFailure,
                          .first_failed = failed,
                          .suspect_nodes = std::vector<std::string>{"n2"},
                          .bad_nodes = {"n2"},
                          .seconds = 2},
       R"("code":137,"reason":"rank_failed","cause":"node_failure","first_failed":{"rank":3,)"
       R"("host":"n2","code":137,"signal":"SIGKILL"},"silent":["n2"],"lost_nodes":["n2"],)"
       R"("seconds":2.0)"},
      {events::Components{
           .components =
               {{.name = "server", .role = ComponentRole::kService, .nodes = 1, .ranks = 1},
                {.name = "trainer",
                 .role = ComponentRole::kMain,
                 .nodes = 2,
                 .ranks = 8,
                 .after = {"server"}}}},
       R"("components":[{"name":"server","role":"service","nodes":1,"ranks":1,"after":[]},)"
       R"({"name":"trainer","role":"main","nodes":2,"ranks":8,"after":["server"]}])"},
      {events::ComponentReady{.addr = "10.0.0.1:80", .seconds = 1.5},
       R"("addr":"10.0.0.1:80","seconds":1.5)"},
      {events::ComponentEnd{.end = {.code = 0, .reason = EndReason::kStopped, .seconds = 1.5}},
       R"("code":0,"reason":"stopped","seconds":1.5)"},
      {events::ComponentRestart{.code = 7, .left = 1}, R"("code":7,"left":1)"},
      {events::Restarting{.cause = Cause::kHang, .left = 2, .by = RestartedBy::kLead},
       R"("cause":"hang","left":2,"by":"lead")"},
      {events::Restarting{
           .cause = Cause::kTimeout, .left = 0, .by = RestartedBy::kSlurm, .exclude = {"n3"}},
       R"("cause":"timeout","left":0,"by":"slurm","exclude":["n3"])"},
      {events::Restarting{
           .cause = Cause::kOom, .left = 1, .by = RestartedBy::kSlurm, .memory_mib = 1536},
       R"("cause":"oom","left":1,"by":"slurm","memory_mib":1536)"},
      {events::Ended{.state = EndState::kFailed, .code = 1, .message = "m"},
       R"("state":"failed","code":1,"message":"m")"},
      {events::Ended{.state = EndState::kCompleted, .message = "m", .is_requeued_after_end = true},
       R"("state":"completed","code":0,"message":"m","requeued":true)"},
  };
}

/// Checks that `count` values of the enumeration have a word, and that each word gives its value
/// back.
template <typename Enum>
void check_words(int count) {
  int word_count = 0;
  for (int i = 0; i < 64; ++i) {
    const auto value = static_cast<Enum>(i);
    if (word(value).empty()) continue;
    CHECK(of_word<Enum>(word(value)) == value);
    ++word_count;
  }
  CHECK(word_count == count);
}

TEST_CASE("an event has its component's name after its attempt, and the name can be read back") {
  const auto object = object_of({kTime, 1, events::Warning{.message = "m"}, "server"});
  CHECK(object.dump() == R"({"t":"2026-11-21T12:00:00.000Z","event":"warning","attempt":1,)"
                         R"("component":"server","message":"m"})");
  CHECK(event_of(object).component == "server");
}

TEST_CASE("a component's name that is malformed is dropped, because names become part of paths") {
  for (const auto* name : {"../x", "a/b", "a b", "."}) {
    auto object = object_of({kTime, 1, events::Warning{.message = "m"}});
    object["component"] = name;
    CHECK(event_of(object).component.empty());
    CHECK(events::Components::of({{"components", {{{"name", name}, {"role", "main"}}}}})
              .components.empty());
  }
}

TEST_CASE("each event has the same bytes as in older versions, and can be read back") {
  std::vector<bool> has_line(std::variant_size_v<RunEvent>);
  for (const auto& [event, fields] : lines()) {
    has_line[event.index()] = true;
    const RecordedEvent recorded{kTime, 3, event};
    const auto line = to_checked_line(object_of(recorded));
    CHECK(line.starts_with(fmt::format(R"({{"t":"{}","event":"{}","attempt":3,{},"crc":")", kTime,
                                       kind_of(event), fields)));
    const auto read = event_of_line(std::string_view(line).substr(0, line.size() - 1));
    REQUIRE(read);
    CHECK(read->time == kTime);
    CHECK(read->attempt == 3);
    REQUIRE(read->event.index() == event.index());
    CHECK(object_of(*read).dump() == object_of(recorded).dump());
    CHECK(kind_of_line(line) == kind_of(event));
    CHECK(importance_of(kind_of(event)) == importance_of(event));
  }
  // The last kind is events::Unknown. lines() has no line of it.
  for (std::size_t kind = 0; kind + 1 < has_line.size(); ++kind) CHECK(has_line[kind]);
}

TEST_CASE("fields that are missing or of the wrong type keep their defaults") {
  const Json nonsense = Json::parse(
      R"({"event":"","t":1,"attempt":"x","ranks":{"a":1},"reason":[1],"cause":7,"first_failed":[],)"
      R"("argv":"x","slow":[1,{"rank":"a"}],"cpu":[1,"a",2],"rss_bytes":[1e300,-1e300,1.6],)"
      R"("groups":[[],7],"exclude":"n1","seconds":"long","word":null,"state":true,"silent":1})");
  for (const auto& [event, fields] : lines()) {
    auto object = nonsense;
    object["event"] = kind_of(event);
    const auto read = event_of(object);
    REQUIRE(read.event.index() == event.index());
    CHECK(read.time.empty());
    CHECK_FALSE(read.attempt);
    if (const auto* samples = std::get_if<events::RankStatistics>(&read.event)) {
      CHECK_FALSE(samples->cpu);
      CHECK(samples->rss_bytes->mean < 0);
      CHECK(samples->rss_bytes->most == 2);
      CHECK(samples->slowest_ranks.empty());
    }
    if (const auto* end = std::get_if<events::AttemptEnd>(&read.event)) {
      CHECK(end->reason.empty());
      CHECK(end->cause.empty());
      CHECK_FALSE(end->first_failed);
    }
  }
  CHECK(std::holds_alternative<events::Unknown>(event_of(Json::array()).event));
}

TEST_CASE(
    "an unknown event is essential, so compaction keeps it, and an unknown value is kept and "
    "equals no known value") {
  const auto read = event_of({{"event", "moved"}, {"attempt", 1}, {"message", "m"}});
  CHECK(kind_of(read.event) == "moved");
  CHECK(importance_of(read.event) == EventImportance::kEssential);
  CHECK(fields_of(read.event)["message"] == "m");
  const auto later = Word<EndReason>::of_text("evicted");
  CHECK(later.text() == "evicted");
  CHECK_FALSE(later.value());
  for (const auto reason : {EndReason::kOk, EndReason::kUndecided}) CHECK_FALSE(later == reason);
  CHECK(Word<EndReason>::of_text(std::string(100'000, 'x')).text().size() < 5000);
}

TEST_CASE("every value of an enumeration in the record has a unique word") {
  check_words<EndReason>(16);
  check_words<Cause>(10);
  check_words<EndState>(4);
  check_words<SignalDecision>(3);
  check_words<RestartedBy>(3);
  check_words<ComponentState>(8);
  check_words<ComponentRole>(2);
}

}  // namespace
}  // namespace dlrun
