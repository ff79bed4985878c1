// Tests the bytes of each message between lead and a rank, and how a receiver treats a message that
// is wrong.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/messages.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <typename Message>
using MessagesWithBytes = std::vector<std::pair<Message, std::string>>;

MessagesWithBytes<MessageToLead> messages_to_lead() {
  const World world{1, 4, 1, 2, 0, 2, WorldSource::kSlurm};
  return {
      {to_lead::Hello{.world = world,
                      .host = "n1",
                      .addr = "10.0.0.1",
                      .pid = 7,
                      .port = 29500,
                      .time = milliseconds(1500),
                      .complaint = "no GPU"},
       R"({"type":"hello","host":"n1","pid":7,"addr":"10.0.0.1","port":29500,"world":{"rank":1,)"
       R"("size":4,"local_rank":1,"local_size":2,"node_rank":0,"nnodes":2},"unfit":"no GPU",)"
       R"("time":1500})"},
      {to_lead::Hello{.world = world,
                      .host = "n1",
                      .addr = "10.0.0.1",
                      .pid = 7,
                      .stages = true,
                      .collect_limit = seconds(600)},
       R"({"type":"hello","host":"n1","pid":7,"addr":"10.0.0.1","port":0,"world":{"rank":1,)"
       R"("size":4,"local_rank":1,"local_size":2,"node_rank":0,"nnodes":2},"stages":true,)"
       R"("collects":600})"},
      {to_lead::Beat{}, R"({"type":"beat"})"},
      {to_lead::Beat{.has_printed = true,
                     .cpu = 1.5,
                     .rss_bytes = 4096,
                     .step = 7,
                     .work_ms = 3.5,
                     .gpus = std::vector<GpuUse>{{50.0, 1, 2}, {}},
                     .is_bare = false},
       R"({"type":"beat","printed":true,"cpu":1.5,"rss":4096,"step":7,"work_ms":3.5,)"
       R"("gpus":[[50.0,1,2],[null,null,null]]})"},
      {to_lead::Suspended{seconds(3)}, R"({"type":"stopped","seconds":3})"},
      {to_lead::Autopsy{{"wait", "main"}}, R"({"type":"autopsy","frames":["wait","main"]})"},
      {to_lead::Signal{15}, R"({"type":"signal","signal":15})"},
      {to_lead::Warning{"m"}, R"({"type":"warning","message":"m"})"},
      {to_lead::DeviceOpenedByCheck{}, R"({"type":"checking"})"},
      {to_lead::Checked{}, R"({"type":"checked"})"},
      {to_lead::CheckFailed{"gloo: x", true},
       R"({"type":"check_failed","words":"gloo: x","is_own":true})"},
      {to_lead::Staged{3, 4096}, R"({"type":"staged","files":3,"bytes":4096})"},
      {to_lead::Collected{3, 4096}, R"({"type":"collected","files":3,"bytes":4096})"},
      {to_lead::Put{5, "k", "6f"}, R"({"type":"put","id":5,"key":"k","value":"6f"})"},
      {to_lead::Get{5, "k", 30}, R"({"type":"get","id":5,"key":"k","wait_ms":30})"},
      {to_lead::Get{5, "k"}, R"({"type":"get","id":5,"key":"k"})"},
      {to_lead::Progress{{{"step", 7}}}, R"({"type":"progress","body":{"step":7}})"},
      {to_lead::TableRequest{256}, R"({"type":"table","from":256})"},
      {to_lead::Exit{{.code = 137, .signal = 9, .error = "", .ended_by_itself = true}},
       R"({"type":"exit","code":137,"signal":9,"error":"","own":true})"},
      {to_lead::Exit{{.code = 68,
                      .signal = 0,
                      .error = "gone",
                      .ended_by_itself = false,
                      .blamed_rank = -1,
                      .lead_was_unheard = true}},
       R"({"type":"exit","code":68,"signal":0,"error":"gone","own":false,"unheard":true,"of":-1})"},
  };
}

MessagesWithBytes<MessageToRank> messages_to_rank() {
  return {
      {to_rank::Start{"10.0.0.2", "10.0.0.1", 29500, true},
       R"({"type":"start","addr":"10.0.0.2","master_addr":"10.0.0.1","master_port":29500,)"
       R"("marked":true})"},
      {to_rank::Beat{}, R"({"type":"beat"})"},
      {to_rank::SignalAnswer{10, SignalDecision::kCheckpoint},
       R"({"type":"word","signal":10,"word":"checkpoint"})"},
      {to_rank::Autopsy{}, R"({"type":"autopsy"})"},
      {to_rank::End{15}, R"({"type":"end","signal":15})"},
      {to_rank::Stage{{"/tmp/a", ""}}, R"({"type":"stage","broadcast":["/tmp/a",""]})"},
      {to_rank::Collect{}, R"({"type":"collect"})"},
      {to_rank::Collect{milliseconds(1500)}, R"({"type":"collect","since_end":1500})"},
      {to_rank::Reply{.id = 5, .ok = true, .value = "6f"},
       R"({"type":"reply","id":5,"ok":true,"value":"6f"})"},
      {to_rank::Reply{.id = 5, .error = "no", .code = "refused"},
       R"({"type":"reply","id":5,"ok":false,"error":"no","code":"refused"})"},
      {to_rank::TablePage{{{"type", "table"}, {"from", 0}}}, R"({"type":"table","from":0})"},
      {to_rank::ExitConfirmed{}, R"({"type":"noted"})"},
  };
}

/// Checks that each message is written as the bytes beside it, that `parse` turns the bytes into
/// the same message, and that `all` has every type of message.
template <typename Message, typename Parse>
void check_messages(const MessagesWithBytes<Message>& all, const Parse& parse) {
  std::vector<bool> has_type(std::variant_size_v<Message>);
  for (const auto& [message, bytes] : all) {
    has_type[message.index()] = true;
    CHECK(text_of(json_of(message)) == bytes);
    const auto read = parse(bytes);
    REQUIRE(read);
    CHECK(read->index() == message.index());
    CHECK(text_of(json_of(*read)) == bytes);
  }
  for (const bool has : has_type) CHECK(has);
}

TEST_CASE("each message is written as the same bytes as in older versions, and can be read back") {
  check_messages(messages_to_lead(), [](const std::string& bytes) {
    auto read = parse_to_lead(bytes);
    REQUIRE(read);
    return *read;
  });
  check_messages(messages_to_rank(), [](const std::string& bytes) { return parse_to_rank(bytes); });
}

TEST_CASE("an unknown or malformed message is ignored, and a wrong hello is an error") {
  for (const char* payload : {"", "[]", "7", "{", R"({"type":7})", R"({"type":"later"})"}) {
    const auto read = parse_to_lead(payload);
    REQUIRE(read);
    CHECK_FALSE(*read);
    CHECK_FALSE(parse_to_rank(payload));
  }
  CHECK_FALSE(parse_to_lead(R"({"type":"hello"})"));
}

TEST_CASE("fields of the wrong type keep their defaults, and numbers and texts are limited") {
  const auto exit = to_lead::Exit::of(
      {{"code", 1 << 20}, {"signal", -5}, {"error", std::string(10'000, 'x')}, {"of", "me"}});
  CHECK(exit.end.code == 255);
  CHECK(exit.end.signal == 0);
  CHECK(exit.end.error.size() == 4096);
  CHECK_FALSE(exit.end.ended_by_itself);
  CHECK(exit.end.blamed_rank == -1);
  CHECK(to_lead::Exit::of(Json::object()).end.code == 70);
  CHECK(to_lead::Signal::of(Json::object()).signal == 1);
  CHECK(to_lead::Put::of({{"id", -1}, {"key", 7}}).key.empty());
  const auto beat = to_lead::Beat::of({{"type", "beat"},
                                       {"cpu", -1},
                                       {"rss", -1},
                                       {"step", 1.5},
                                       {"gpus", {{1}, "x", {80, 1, 2}}},
                                       {"node_gpus", Json(std::vector<int>(65, 0))}});
  CHECK_FALSE(beat.is_bare);
  CHECK_FALSE(beat.cpu);
  CHECK_FALSE(beat.rss_bytes);
  CHECK_FALSE(beat.step);
  REQUIRE(beat.gpus->size() == 3);  // a GPU behind unreadable ones keeps its index
  CHECK_FALSE(beat.gpus->at(1).percent);
  CHECK(beat.gpus->at(2).percent == 80.0);
  CHECK_FALSE(beat.node_gpus);
  CHECK(to_rank::SignalAnswer::of({{"word", "later"}}).decision.value() == std::nullopt);
}

}  // namespace
}  // namespace dlrun::agent
