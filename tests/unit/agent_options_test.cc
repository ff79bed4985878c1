// Tests how dlrun-agent parses its command lines.

#include "runtime/agent/agent_options.h"

#include <string>

#include <doctest/doctest.h>

namespace dlrun::agent {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("lead's options end at the first --, and the command has all words after it") {
  const auto parsed = parse_arguments({"lead", "--runs", "/scratch/runs", "--name=mnist",
                                       "--join-timeout", "2.5", "--forward-usr1", "--borrowed",
                                       "--", "srun", "-n2", "dlrun-agent", "rank", "--", "python"});
  REQUIRE(parsed);
  const auto& lead = std::get<LeadOptions>(*parsed);
  CHECK(lead.runs == "/scratch/runs");
  CHECK(lead.name == "mnist");
  CHECK(lead.join_timeout == std::chrono::milliseconds(2500));
  CHECK(lead.forwards_usr1);
  CHECK(lead.uses_existing_allocation);
  CHECK_FALSE(lead.local_ranks);
  CHECK(lead.command == Words{"srun", "-n2", "dlrun-agent", "rank", "--", "python"});
}

TEST_CASE(
    "lead parses the options for hangs, restarts, chains and bad nodes, and quotes a wrong value") {
  const auto parsed = parse_arguments({"lead",
                                       "--hang-after",
                                       "900",
                                       "--retry",
                                       "5",
                                       "--retry-on",
                                       "timeout,hang",
                                       "--no-progress",
                                       "2",
                                       "--exclude-bad-nodes",
                                       "--min-nodes",
                                       "2",
                                       "--step-nodes",
                                       "3",
                                       "--known-bad",
                                       "/shared/bad",
                                       "--known-bad-for",
                                       "60",
                                       "--grow-memory",
                                       "1.5",
                                       "--memory-limit",
                                       "512000",
                                       "--signal-before",
                                       "120",
                                       "--chain",
                                       "4",
                                       "--rehearse",
                                       "90",
                                       "--",
                                       "srun"});
  REQUIRE(parsed);
  const auto& lead = std::get<LeadOptions>(*parsed);
  CHECK(lead.retry.chain == 4);
  CHECK(lead.rehearsal == std::chrono::seconds(90));
  CHECK(lead.hang_after == std::chrono::seconds(900));
  CHECK(lead.retry.max == 5);
  CHECK(lead.retry.on == std::set<Cause>{Cause::kTimeout, Cause::kHang});
  CHECK(lead.retry.no_progress == 2);
  CHECK(lead.retry.excludes_bad_nodes);
  CHECK(lead.retry.min_nodes == 2);
  CHECK(lead.retry.step_nodes == 3);
  CHECK(lead.retry.memory_factor == 1.5);
  CHECK(lead.retry.memory_limit_mib == 512000);
  CHECK(lead.known_bad.file == "/shared/bad");
  CHECK(lead.known_bad.time == std::chrono::seconds(60));
  CHECK(lead.retry.signal_before_s == 120);
  CHECK_FALSE(std::get<LeadOptions>(*parse_arguments({"lead", "--", "srun"})).retry.is_enabled());
  for (const auto& wrong :
       {Words{"--retry", "-1"}, Words{"--retry", "many"}, Words{"--hang-after", "0"},
        Words{"--no-progress", "0"}, Words{"--step-nodes", "0"}, Words{"--known-bad-for", "0"},
        Words{"--retry-on", "user_error"}, Words{"--chain", "1"}, Words{"--chain", "101"},
        Words{"--rehearse", "0"}}) {
    const auto refused = parse_arguments({"lead", wrong[0], wrong[1], "--", "srun"});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find(fmt::format("'{}'", wrong[1])) != std::string::npos);
  }
}

TEST_CASE("lead parses the rule by which a point of a sweep ends early") {
  const auto parsed = parse_arguments(
      {"lead", "--stop-after", "5", "--stop-early", "max:val_accuracy", "--", "srun"});
  REQUIRE(parsed);
  const StopRule& rule = std::get<LeadOptions>(*parsed).stop_early;
  CHECK(rule.metric == "val_accuracy");
  CHECK_FALSE(rule.is_smaller_better);
  CHECK(rule.after == 5);
  CHECK(std::get<LeadOptions>(*parse_arguments({"lead", "--", "srun"})).stop_early.metric.empty());
}

TEST_CASE(
    "lead finds --bundled and --preflight among rank's options, but not among the program's "
    "arguments") {
  const auto is_bundled = [](Words command) {
    command.insert(command.begin(), {"lead", "--"});
    return std::get<LeadOptions>(*parse_arguments(command)).program_is_bundled;
  };
  CHECK(is_bundled({"srun", "agent", "rank", "--bundled", "--", "dlrun-trainer"}));
  CHECK_FALSE(is_bundled({"srun", "agent", "rank", "--", "prog", "--bundled"}));
  CHECK_FALSE(is_bundled({"srun", "agent"}));
  const auto checks = [](Words command) {
    command.insert(command.begin(), {"lead", "--"});
    return std::get<LeadOptions>(*parse_arguments(command)).node_checks;
  };
  CHECK(checks({"srun", "agent", "rank", "--preflight", "gpu,disk", "--", "prog"}) == "gpu,disk");
  CHECK(checks({"srun", "agent", "rank", "--", "prog", "--preflight", "gpu"}).empty());
}

TEST_CASE("rank keeps the variables in order and the program's arguments unchanged") {
  const auto parsed = parse_arguments({"rank", "--env", "RANK={rank}", "--env=A=--b", "--bundled",
                                       "--", "prog", "--env", "", "a b"});
  REQUIRE(parsed);
  const auto& rank = std::get<RankOptions>(*parsed);
  REQUIRE(rank.templates.size() == 2);
  CHECK(rank.templates[1].name == "A");
  CHECK(rank.templates[1].value.text() == "--b");
  CHECK(rank.program_is_bundled);
  CHECK(rank.program == Words{"prog", "--env", "", "a b"});
}

TEST_CASE("rank parses a preset's words, the processes per node, and roles") {
  const auto parsed = parse_arguments({"rank", "--word", "torchrun", "--word=--x={node_rank}",
                                       "--nproc-per-node", "4", "--roles", "ps=2", "--", "prog"});
  REQUIRE(parsed);
  const auto& rank = std::get<RankOptions>(*parsed);
  REQUIRE(rank.words.size() == 2);
  CHECK(rank.words[1].text() == "--x={node_rank}");
  CHECK(rank.nproc_per_node == 4);
  CHECK(rank.roles.ps == 2);
}

TEST_CASE(
    "the error for a wrong command line quotes the wrong word, or says what is missing or "
    "unexpected") {
  struct Case {
    Words arguments;
    const char* says;
  };
  for (const auto& wrong :
       {Case{{}, "expected 'lead', 'rank', 'relay' or 'sshd', but there is no argument"},
        Case{{"laed"}, "not 'laed'"},
        Case{{"lead", "--local", "0", "--", "x"}, "--local '0'"},
        Case{{"lead", "--local", "4097", "--", "x"}, "--local '4097'"},
        Case{{"lead", "--join-timeout", "-1", "--", "x"}, "'-1'"},
        Case{{"lead", "--name", "a/b", "--", "x"}, "'a/b'"},
        Case{{"lead", "--stop-early", "loss", "--", "x"}, "--stop-early 'loss' is not min:NAME"},
        Case{{"lead", "--stop-after", "0", "--", "x"},
             "--stop-after '0' is not a whole number above 0"},
        Case{{"lead", "--name"}, "--name needs a value"},
        Case{{"rank", "--word", "{x}", "--", "x"}, "--word: unknown field '{x}'"},
        Case{{"rank", "--nproc-per-node", "0", "--", "x"}, "--nproc-per-node '0'"},
        Case{{"rank", "--roles", "boss=1", "--", "x"}, "'boss=1'"},
        Case{{"lead", "--nmae", "x", "--", "x"}, "unknown option '--nmae'"},
        Case{{"lead", "--forward-usr1=yes", "--", "x"}, "takes no value"},
        Case{{"lead", "--grow-memory", "1", "--", "x"}, "--grow-memory '1'"},
        Case{{"lead", "--memory-limit", "0", "--", "x"}, "--memory-limit '0'"},
        Case{{"lead", "srun"}, "unknown option 'srun'"},
        Case{{"sshd", "--folder"}, "sshd: --folder needs an absolute path"},
        Case{{"sshd", "folder"}, "sshd: takes --check or --folder DIR, not 'folder'"},
        Case{{"rank", "--"}, "no command"},
        Case{{"rank"}, "no command"},
        Case{{"rank", "--env", "A={x}", "--", "p"}, "unknown field '{x}'"}}) {
    CAPTURE(wrong.says);
    const auto parsed = parse_arguments(wrong.arguments);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Errc::kUsage);
    CHECK(parsed.error().message.find(wrong.says) != std::string::npos);
  }
}

TEST_CASE(
    "lead --never-started takes an exit code from 0 to 255, and the command at which the job "
    "script ended") {
  const auto parsed =
      parse_arguments({"lead", "--name", "n", "--never-started", "9", "--", "exit 9"});
  REQUIRE(parsed.has_value());
  const auto& lead = std::get<LeadOptions>(*parsed);
  CHECK(lead.failed_script_code == 9);
  CHECK(lead.command == std::vector<std::string>{"exit 9"});
  for (const char* code : {"", "x", "-1", "256"})
    CHECK_FALSE(parse_arguments({"lead", "--never-started", code, "--", "why"}).has_value());
}

TEST_CASE(
    "rank, stage and collect take items as JSON, and lead finds those of --stage among the options "
    "of rank") {
  const std::string stage = R"({"from":"/d/a.tar","to":"$TMPDIR/a","unpack":true})";
  const std::string output = R"({"from":"$TMPDIR/c","to":"out","limit_s":60})";
  const auto parsed = parse_arguments({"rank", "--stage", stage, "--output", output, "--", "x"});
  REQUIRE(parsed);
  const auto& rank = std::get<RankOptions>(*parsed);
  REQUIRE(rank.stage.size() == 1);
  CHECK(rank.stage[0].unpack);
  REQUIRE(rank.outputs.size() == 1);
  CHECK(rank.outputs[0].limit == std::chrono::seconds(60));
  const auto lead_arguments =
      parse_arguments({"lead", "--", "srun", "dlrun-agent", "rank", "--stage", stage, "--stage",
                       stage, "--", "x", "--stage", "y"});
  REQUIRE(lead_arguments);
  CHECK(std::get<LeadOptions>(*lead_arguments).stage.size() == 2);
  const auto stage_arguments = parse_arguments({"stage", "--nnodes", "2", "--", stage});
  REQUIRE(stage_arguments);
  CHECK(std::get<StageOptions>(*stage_arguments).nnodes == 2);
  const auto collect_arguments =
      parse_arguments({"collect", "--run", "/r", "--node", "1", "--last", "--incomplete-since",
                       "1700000000000", "--", output});
  REQUIRE(collect_arguments);
  const auto& collect = std::get<CollectOptions>(*collect_arguments);
  CHECK(collect.node == 1);
  CHECK(collect.is_last);
  CHECK(collect.incomplete_since == std::chrono::milliseconds(1'700'000'000'000));
  CHECK_FALSE(parse_arguments({"rank", "--stage", "x", "--", "y"}));
}

}  // namespace
}  // namespace dlrun::agent
