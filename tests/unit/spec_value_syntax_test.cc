#include <doctest/doctest.h>

#include "launcher/spec/value_syntax.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

TEST_CASE("the age of a run needs a unit, which may be weeks, and has an upper limit") {
  CHECK(parse_age("30d").value() == 30 * 24 * 3600);
  CHECK(parse_age("12h").value() == 12 * 3600);
  CHECK(parse_age("2w").value() == 14 * 24 * 3600);
  for (const char* text : {"30", "", "w", "-1w", "+1w", "99999w", "d", "30 days", "-30d"}) {
    INFO(text);
    CHECK(parse_age(text).error().code == Errc::kUsage);
  }
  for (const char* text : {"3651d", "521w", "99999w"}) {
    INFO(text);
    CHECK(parse_age(text).error().message.find("longer than the longest age") != std::string::npos);
  }
}

TEST_CASE("the error for a wrong age lists all units, and says that m is minutes") {
  CHECK(parse_age("1m").value() == 60);
  CHECK(parse_age("5s").value() == 5);
  CHECK(has(parse_age("30").error().message, "the units are s, m (minutes), h, d and w"));
}

TEST_CASE("time limits in Slurm's forms and in dlrun's forms are parsed to seconds") {
  struct Case {
    const char* text;
    std::int64_t seconds;
  };
  for (const Case& one : {Case{"10", 600},
                          {"90:30", 5430},
                          {"00:10:00", 600},
                          {"1-12", 129600},
                          {"1-12:30", 131400},
                          {"2-00:00:01", 172801},
                          {"90s", 90},
                          {"10m", 600},
                          {"1h30m", 5400},
                          {"2d", 172800},
                          {"1d2h3m4s", 93784}}) {
    INFO(one.text);
    const auto parsed = parse_time_limit(one.text);
    REQUIRE(parsed.has_value());
    CHECK(**parsed == one.seconds);
    CHECK(**parse_time_limit(format_time_limit(one.seconds)) == one.seconds);
  }
  CHECK_FALSE(parse_time_limit("unlimited")->has_value());
  CHECK_FALSE(parse_time_limit("INFINITE")->has_value());
}

TEST_CASE(
    "an invalid time limit is refused: words, signs, zero, more than ten years, units out of "
    "order") {
  for (const char* text : {"",           "soon",  "-5",   "+5",    "0",    "00:00:00", "0s",
                           "1:2:3:4",    "1-2-3", "10mm", "30m1h", "1h1h", "h",        "9999999999",
                           "999999999d", " 10",   "10 ",  "1.5h",  "1-",   "-1:00"}) {
    INFO(text);
    CHECK_FALSE(parse_time_limit(text).has_value());
  }
}

TEST_CASE("the error for a time, age or size with a long unit suggests the short unit") {
  const auto suggestion = [](const auto& parsed) {
    const std::string message = parsed.error().message;
    const auto at = message.find("; did you mean");
    return at == std::string::npos ? std::string() : message.substr(at);
  };
  CHECK(suggestion(parse_time_limit("5mins")) == "; did you mean '5m'?");
  CHECK(suggestion(parse_time_limit("5 min")) == "; did you mean '5m'?");
  CHECK(suggestion(parse_duration("1 hour 30 Minutes")) == "; did you mean '1h30m'?");
  CHECK(suggestion(parse_age("30 days")) == "; did you mean '30d'?");
  CHECK(suggestion(parse_age("2weeks")) == "; did you mean '2w'?");
  CHECK(suggestion(check_memory("4GBs")) == "; did you mean '4G'?");
  CHECK(suggestion(check_memory("64 GiB")) == "; did you mean '64G'?");
  for (const char* text : {"500ms", "30m1h", "2 weeks", "1.5 h", "min", "5 min x", "", " "}) {
    INFO(text);
    CHECK(suggestion(parse_time_limit(text)).empty());
  }
  CHECK(suggestion(parse_age("6M")).empty());  // perhaps months
  CHECK(suggestion(parse_age("1m 1h")).empty());
  CHECK(suggestion(check_memory("4G 2M")).empty());
}

TEST_CASE("memory sizes have Slurm's units") {
  for (const char* text : {"0", "64", "64K", "500M", "64G", "1T", "64g", "4GB", "4MB"}) {
    INFO(text);
    CHECK(check_memory(text).has_value());
  }
  for (const char* text :
       {"", "G", "-1G", "64 G", "64GiB", "1.5G", "64X", "B", "4B", "0x10", "9999999999G"}) {
    INFO(text);
    CHECK_FALSE(check_memory(text).has_value());
  }
}

TEST_CASE("a node count is a number or an ascending range") {
  CHECK(format_nodes(*parse_nodes("3")) == "3");
  CHECK(format_nodes(*parse_nodes("2-4")) == "2-4");
  CHECK(format_nodes(*parse_nodes("4-4")) == "4");
  for (const char* text : {"", "0", "-2", "4-2", "1-2-3", "2-", "two", "1000001", "2k"}) {
    INFO(text);
    CHECK_FALSE(parse_nodes(text).has_value());
  }
}

TEST_CASE("gpus_in_gres() counts only GPUs") {
  CHECK(gpus_in_gres("gpu:4") == 4);
  CHECK(gpus_in_gres("gpu") == 1);
  CHECK(gpus_in_gres("gpu:a100:4,shard:8") == 4);
  CHECK(gpus_in_gres("gres:gpu:2") == 2);
  CHECK(gpus_in_gres("gpu:a100:2,gpu:v100:1") == 3);
  CHECK(gpus_in_gres("gpu:2(S:0-1)") == 2);
  CHECK(gpus_in_gres("shard:8") == 0);
}

TEST_CASE("a GPU count has an optional type, which is a name") {
  CHECK(parse_gpus("1g.5gb:2")->type == "1g.5gb");
  CHECK(parse_gpus("0")->count == 0);
  for (const char* text : {"", ":4", "a b:4", "a100:", "a100", "a,b:1", "-1", "1000001"}) {
    INFO(text);
    CHECK_FALSE(parse_gpus(text).has_value());
  }
}

TEST_CASE(
    "parse_checkpoint_interval() returns the number of steps between checkpoints, and 0 for one "
    "epoch") {
  CHECK(*parse_checkpoint_interval("500 steps") == 500);
  CHECK(*parse_checkpoint_interval("1 step") == 1);
  CHECK(*parse_checkpoint_interval("1 epoch") == 0);
  for (const char* text : {"", "500", "0 steps", "-1 steps", "2 epochs", "5 minutes"}) {
    INFO(text);
    CHECK_FALSE(parse_checkpoint_interval(text).has_value());
  }
}

}  // namespace
}  // namespace dlrun
