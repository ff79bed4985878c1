// Tests what lead and the agents do for one component of a job.
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "runtime/agent/address.h"
#include "runtime/agent/agent_options.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/component_step.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/program_env.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/ready_probe.h"
#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

TEST_CASE("a stopped component ends with 0 and the reason `stopped`, whatever its ranks report") {
  AttemptOptions options;
  options.is_component = options.is_service = true;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.stop("not needed any more", scene.now);
  CHECK(scene.actions.broadcast_count("end") == 1);
  end_four_ranks(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 0);
  CHECK(scene.attempt.end().reason == EndReason::kStopped);
  CHECK_FALSE(scene.attempt.end().is_cancelled);
  CHECK(scene.actions.count("attempt_end") == 0);
  CHECK(scene.actions.last("component_end")["reason"] == "stopped");
  CHECK(scene.actions.count("rank_failed") == 0);
}

TEST_CASE("a component that is not ready in time fails with a separate exit code") {
  AttemptOptions options;
  options.is_component = true;
  Scene scene(options);
  scene.all_join(4);
  scene.attempt.on_not_ready("it was not ready within 5 s: code 503", scene.now);
  end_four_ranks(scene);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == kExitNotReady);
  CHECK(scene.attempt.end().cause == Cause::kFailure);
  CHECK(scene.attempt.end().message == "it was not ready within 5 s: code 503");
}

TEST_CASE(
    "the warnings of a preemption are not passed on to the ranks of a service, which goes on") {
  AttemptOptions options;
  options.forwards_usr1 = true;
  options.is_component = options.is_service = true;
  Scene scene(options);
  scene.all_join(4);
  for (const int signal : {SIGUSR1, SIGTERM}) {
    scene.attempt.on_rank_signal(1, signal, scene.now);
    REQUIRE_FALSE(scene.actions.sent.empty());
    CHECK(scene.actions.sent.back().second["word"] == "none");
    CHECK(scene.attempt.is_warned() == (signal == SIGTERM));
  }
  scene.attempt.on_lead_signal(SIGUSR1, scene.now);
  CHECK(scene.actions.broadcasts.empty());
  CHECK(scene.attempt.goes_on());
}

TEST_CASE("a service that reports nothing for an hour does not count as hung") {
  AttemptOptions options;
  options.is_component = options.is_service = true;
  options.hang_after = seconds(60);
  Scene scene(options);
  scene.all_join(4);
  scene.pass(seconds(3600));
  CHECK(scene.attempt.goes_on());
}

TEST_CASE("the address, port and nodes of a component are known once all its ranks have joined") {
  Scene scene;
  scene.hello(0, 4);
  CHECK_FALSE(scene.attempt.address());
  for (const int rank : {3, 1, 2}) scene.hello(rank, 4);
  const auto address = scene.attempt.address();
  REQUIRE(address);
  CHECK(*address == ComponentAddress{"", "10.0.0.1", 29500, {"n1", "n2"}});
}

TEST_CASE("a rank with the secret of one component cannot claim to belong to another component") {
  REQUIRE(init_crypto());
  const Secrets secrets{{"server", random_key()}, {"trainer", random_key()}};
  const auto proves = [&](const std::string& key_owner, const std::string& claimed) {
    const LeadHandshake lead;
    RankHandshake rank(secrets.at(key_owner), RankIdentity{"42", "1", 0, 3, claimed});
    auto greeting = lead.greeting();
    auto answer = rank.answer(greeting);
    REQUIRE(answer);
    REQUIRE(*answer);
    const auto authenticated = lead.advance(**answer, secrets);
    return authenticated && *authenticated && (*authenticated)->identity.component == claimed;
  };
  CHECK(proves("server", "server"));
  CHECK(proves("trainer", "trainer"));
  CHECK_FALSE(proves("server", "trainer"));
  CHECK_FALSE(proves("trainer", "server"));
  CHECK_FALSE(proves("trainer", ""));
}

TEST_CASE("the text of an identity ends with the name of its component, if it has a component") {
  CHECK(RankIdentity{"42", "1", 0, 3}.text() == "42 1 0 3");
  CHECK(RankIdentity{"42", "1", 0, 3, "server"}.text() == "42 1 0 3 server");
  const auto parsed = RankIdentity::parse("42 1 0 3 server");
  REQUIRE(parsed);
  CHECK(parsed->component == "server");
  CHECK_FALSE(RankIdentity::parse("42 1 0 3 "));
  CHECK_FALSE(RankIdentity::parse("42 1 0 3 server x"));
}

const std::vector<std::string> kLeadArguments{"lead",
                                              "--runs",
                                              "/r",
                                              "--hang-after",
                                              "60",
                                              "--component",
                                              "server",
                                              "--role",
                                              "service",
                                              "--ready-http",
                                              "/health",
                                              "--ready-timeout",
                                              "30",
                                              "--component-retry",
                                              "2",
                                              "--component-nodes",
                                              "1",
                                              "--component-ranks",
                                              "1",
                                              "--component-first-node",
                                              "0",
                                              "--port-count",
                                              "1",
                                              "--",
                                              "--exact",
                                              "--gpus-per-node=0",
                                              "/x/dlrun-agent",
                                              "rank",
                                              "--",
                                              "serve",
                                              "--port",
                                              "{port}",
                                              "+++",
                                              "--component",
                                              "trainer",
                                              "--after",
                                              "server",
                                              "--component-nodes",
                                              "2",
                                              "--component-ranks",
                                              "4",
                                              "--component-first-node",
                                              "1",
                                              "--",
                                              "--exact",
                                              "/x/dlrun-agent",
                                              "rank",
                                              "--bundled",
                                              "--preflight",
                                              "gpu",
                                              "--",
                                              "train",
                                              "--",
                                              "x"};

TEST_CASE("lead parses the components, each with its options, its step and its program") {
  const auto parsed = parse_arguments(kLeadArguments);
  REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message));
  const auto& lead = std::get<LeadOptions>(*parsed);
  CHECK(lead.runs == "/r");
  CHECK(lead.hang_after == seconds(60));
  CHECK(lead.command.empty());
  CHECK(lead.program_is_bundled);
  REQUIRE(lead.components.size() == 2);
  const auto& server = lead.components[0];
  CHECK(server.role == ComponentRole::kService);
  CHECK(server.ready.kind == ReadyCheck::Kind::kHttp);
  CHECK(server.ready.path == "/health");
  CHECK(server.ready.timeout == seconds(30));
  CHECK(server.retries == 2);
  CHECK(server.first_node == 0);
  CHECK_FALSE(server.program_is_bundled);
  CHECK(server.srun_arguments.back() == "{port}");
  const auto& trainer = lead.components[1];
  CHECK(trainer.role == ComponentRole::kMain);
  CHECK(trainer.after == std::vector<std::string>{"server"});
  CHECK(trainer.rank_count == 4);
  CHECK(trainer.node_checks == "gpu");
  CHECK(trainer.srun_arguments.back() == "x");
}

TEST_CASE("+++ in the command of a job with one program is an argument like any other") {
  const auto parsed = parse_arguments({"lead", "--", "srun", "a", "+++", "--component", "x"});
  REQUIRE(parsed);
  CHECK(std::get<LeadOptions>(*parsed).components.empty());
  CHECK(std::get<LeadOptions>(*parsed).command.size() == 5);
}

/// Replaces the first argument of kLeadArguments that equals `old`, and parses the result. Returns
/// the message of the error, or an empty text.
std::string error_with(const std::string& old, const std::vector<std::string>& replacement) {
  auto words = kLeadArguments;
  const auto at = std::find(words.begin(), words.end(), old);
  REQUIRE(at != words.end());
  words.insert(words.erase(at), replacement.begin(), replacement.end());
  const auto parsed = parse_arguments(words);
  return parsed ? std::string() : parsed.error().message;
}

TEST_CASE(
    "wrong components are refused with a message that quotes the wrong argument or the broken "
    "rule") {
  struct Case {
    std::string old;
    std::vector<std::string> replacement;
    std::string message;
  };
  const std::vector<Case> cases{
      {"service", {"helper"}, "neither main nor service"},
      {"/health", {"health"}, "--ready-http 'health'"},
      {"/health", {"/a b"}, "without spaces"},
      {"/health", {"/a\r\nX: y"}, "without spaces"},
      {"trainer", {"ser/ver"}, "--component 'ser/ver'"},
      {"trainer", {"SERVER"}, "DLRUN_COMPONENT_SERVER_ADDR"},
      {"trainer", {"server"}, "DLRUN_COMPONENT_SERVER_ADDR"},
      {"trainer", {"trainer", "--after", "trainer"}, "would start: trainer -> trainer"},
      {"trainer", {"trainer", "--after", "store"}, "'store', which is no component"},
      {"trainer", {"trainer", "--role", "service"}, "no component has --role main"},
      {"trainer", {"trainer", "--component-retry", "1"}, "only a service"},
      {"trainer",
       {"trainer", "--het-group", "1"},
       "has both --component-first-node and --het-group"},
      {"4", {"1"}, "has --component-nodes 2 and --component-ranks 1"},
      {"trainer", {"trainer", "--runs", "/x"}, "unknown option '--runs'"},
      {"--port-count", {"--after", "trainer", "--port-count"}, "server -> trainer -> server"},
      {"/r", {"/r", "--local", "2"}, "--local"},
      {"/r", {"/r", "--min-nodes", "1"}, "--min-nodes"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.message);
    const auto message = error_with(one.old, one.replacement);
    CAPTURE(message);
    CHECK(message.find(one.message) != std::string::npos);
  }
  CHECK(error_with("1", {"1"}).empty());
  // The trainer waits for the server, but is in no cycle.
  const auto cycle = error_with("--port-count", {"--after", "server", "--port-count"});
  CHECK(cycle.find("would start: server -> server") != std::string::npos);
  CHECK(cycle.find("trainer") == std::string::npos);
}

TEST_CASE(
    "srun gets the component's name and its nodes or heterogeneous group, and a job with too few "
    "nodes is an error") {
  const auto parsed = parse_arguments(kLeadArguments);
  REQUIRE(parsed);
  const auto& components = std::get<LeadOptions>(*parsed).components;
  Env env;
  env.set("SLURM_JOB_NODELIST", "n[1-3]");
  const auto command = component_command(components[1], env);
  REQUIRE(command);
  const std::vector<std::string> begin(command->begin(), command->begin() + 5);
  CHECK(begin == std::vector<std::string>{"srun", "--job-name=trainer", "--nodelist=n[2-3]",
                                          "--exact", "/x/dlrun-agent"});
  env.set("SLURM_JOB_NODELIST", "n[1-2]");
  const auto too_few = component_command(components[1], env);
  REQUIRE_FALSE(too_few);
  CHECK(too_few.error().message.find("component 'trainer' needs the nodes 2 to 3") == 0);
  auto het_component = components[1];
  het_component.first_node.reset();
  het_component.het_group = 1;
  const auto het_command = component_command(het_component, env);
  REQUIRE(het_command);
  CHECK((*het_command)[2] == "--het-group=1");
}

TEST_CASE("the nodes of a heterogeneous job are those of all its parts") {
  Env env;
  env.set("SLURM_JOB_NODELIST", "n1");
  CHECK(nodes_of_job(env) == "n1");
  env.set("SLURM_HET_SIZE", "2");
  env.set("SLURM_JOB_NODELIST_HET_GROUP_0", "n1");
  env.set("SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]");
  CHECK(nodes_of_job(env) == "n1,n[2-3]");
}

TEST_CASE(
    "a component's step inherits no option of the batch step, and gets the component's name and "
    "port") {
  const auto parsed = parse_arguments(kLeadArguments);
  REQUIRE(parsed);
  const auto& components = std::get<LeadOptions>(*parsed).components;
  const std::vector<std::string> inherited{
      "SLURM_NTASKS",        "SLURM_NPROCS",   "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
      "SLURM_CPUS_PER_TASK", "SLURM_GPUS",     "SLURM_GPUS_PER_NODE",   "SLURM_GRES",
      "SLURM_MEM_PER_NODE",  "SLURM_JOB_GPUS", "SLURM_TRES_PER_TASK",   "SLURM_DISTRIBUTION",
      "SLURM_EXACT",         "SLURM_OVERLAP"};
  Env env;
  for (const auto& name : inherited) env.set(name, "1");
  env.set("SLURM_JOB_ID", "42");
  set_component_env(env, components[0], 4711);
  for (const auto& name : inherited) {
    CAPTURE(name);
    CHECK_FALSE(env.has(name));
  }
  CHECK(env.get_or("SLURM_JOB_ID", "") == "42");
  CHECK(env.get_or("DLRUN_COMPONENT", "") == "server");
  CHECK(env.get_or("DLRUN_HELD_PORT", "") == "4711");
  CHECK(env.has("DLRUN_HIDES_GPUS"));
  Env other;
  set_component_env(other, components[1], 0);
  CHECK_FALSE(other.has("DLRUN_HIDES_GPUS"));
  CHECK_FALSE(other.has("DLRUN_HELD_PORT"));
}

TEST_CASE(
    "a component's program gets the addresses and nodes of the others and its own port, and sees "
    "no GPU if GPUs are hidden") {
  RankOptions options;
  options.program = {"serve", "--port={port}", "{addr}", "{port}-{port}"};
  TemplateValues fields;
  fields.port = 4711;
  fields.component = "server";
  fields.components = {{"gpu-server", "10.0.0.1", 4711, {"n1", "n2"}}, {"bad name", "x", 1, {}}};
  Env agent_env;
  agent_env.set("DLRUN_HIDES_GPUS", "1");
  agent_env.set("DLRUN_HELD_PORT", "4711");
  agent_env.set("DLRUN_COMPONENT_OLD_ADDR", "of an outer job");
  const auto env = program_env(agent_env, options, fields);
  REQUIRE(env);
  CHECK(env->get_or("DLRUN_COMPONENT", "") == "server");
  CHECK(env->get_or("DLRUN_COMPONENT_GPU_SERVER_ADDR", "") == "10.0.0.1:4711");
  CHECK(env->get_or("DLRUN_COMPONENT_GPU_SERVER_HOSTS", "") == "n1,n2");
  CHECK(env->get("CUDA_VISIBLE_DEVICES") == std::string_view());
  for (const auto* name : {"DLRUN_HIDES_GPUS", "DLRUN_HELD_PORT", "DLRUN_COMPONENT_OLD_ADDR"})
    CHECK_FALSE(env->has(name));
  CHECK(needs_port(options, true));
  CHECK(program_argv(options, fields) ==
        std::vector<std::string>{"serve", "--port=4711", "{addr}", "4711-4711"});
}

TEST_CASE(
    "a job with one program has none of the variables of components, and keeps {port} in its "
    "arguments") {
  RankOptions options;
  options.program = {"serve", "{port}"};
  TemplateValues fields;
  fields.port = 4711;
  const auto env = program_env(Env{}, options, fields);
  REQUIRE(env);
  CHECK_FALSE(env->has("DLRUN_COMPONENT"));
  CHECK_FALSE(env->has("CUDA_VISIBLE_DEVICES"));
  CHECK_FALSE(needs_port(options, false));
  CHECK(program_argv(options, fields) == options.program);
}

TEST_CASE("a rank uses DLRUN_COMPONENT only if lead started it, and only if the name is valid") {
  Env env;
  env.set("DLRUN_COMPONENT", "server");
  CHECK(component_of(env).empty());
  env.set("DLRUN_LEAD", "10.0.0.1:4000");
  CHECK(component_of(env) == "server");
  env.set("DLRUN_COMPONENT", "../../x");
  CHECK(component_of(env).empty());
}

TEST_CASE(
    "the message that starts the programs has the addresses of components, if there are any") {
  const to_rank::Start start{.addr = "10.0.0.2",
                             .master_addr = "10.0.0.1",
                             .master_port = 4000,
                             .marks_stderr = true,
                             .components = {{"server", "10.0.0.9", 80, {"n1", "n2"}}}};
  const auto again = parse_to_rank(text_of(json_of(MessageToRank(start))));
  REQUIRE(again);
  CHECK(std::get<to_rank::Start>(*again).components == start.components);
  CHECK_FALSE(to_rank::Start{}.json().contains("components"));
}

/// Lets the probe try until it connects to the listener, sends `text` to the probe, and closes the
/// connection. Returns the probe's request. If `text` is empty, does not wait for the request, and
/// may return an empty text.
std::string answer_probe(EventLoop& loop, ReadyProbe& probe, const BoundPort& listener,
                         const std::string& text) {
  UniqueFd peer;
  const auto until = ReadyProbe::Clock::now() + seconds(20);
  while (!peer.is_open() && ReadyProbe::Clock::now() < until) {
    probe.tick(ReadyProbe::Clock::now());
    loop.run_once(milliseconds(10));
    peer.reset(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  REQUIRE(peer.is_open());
  std::string request(4096, '\0');
  loop.run_once(milliseconds(10));
  const auto got =
      ::recv(peer.get(), request.data(), request.size(), text.empty() ? MSG_DONTWAIT : 0);
  request.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  REQUIRE(write_all(peer.get(), text));
  peer.reset();
  for (int round = 0; round < 10; ++round) loop.run_once(milliseconds(10));
  return request;
}

TEST_CASE(
    "a component is probed again until it accepts a TCP connection, or answers HTTP with a good "
    "code") {
  auto loop = EventLoop::create();
  REQUIRE(loop);
  const auto listener = listen_on_free_port(true);
  REQUIRE(listener);
  const Endpoint endpoint{"127.0.0.1", listener->port};
  SUBCASE("TCP") {
    ReadyProbe probe(*loop, endpoint, {.kind = ReadyCheck::Kind::kTcp});
    CHECK_FALSE(probe.is_ready());
    std::ignore = answer_probe(*loop, probe, *listener, "");
    CHECK(probe.is_ready());
  }
  SUBCASE("HTTP") {
    ReadyProbe probe(*loop, endpoint, {.kind = ReadyCheck::Kind::kHttp, .path = "/health"});
    const auto request =
        answer_probe(*loop, probe, *listener, "HTTP/1.1 503 Service Unavailable\r\n\r\n");
    CHECK(request.find("GET /health HTTP/1.1\r\nHost: 127.0.0.1:") == 0);
    CHECK_FALSE(probe.is_ready());
    CHECK(probe.problem().ends_with("/health: code 503"));
    std::ignore = answer_probe(*loop, probe, *listener, "SSH-2.0-OpenSSH\r\n");
    CHECK_FALSE(probe.is_ready());
    CHECK(probe.problem().ends_with("the answer is not HTTP"));
    std::ignore = answer_probe(*loop, probe, *listener, "");
    CHECK_FALSE(probe.is_ready());
    CHECK(probe.problem().ends_with("the program closed the connection without an answer"));
    std::ignore = answer_probe(*loop, probe, *listener, "HTTP/1.0 204 No Content\r\n\r\n");
    CHECK(probe.is_ready());
  }
  SUBCASE("nobody listens") {
    const auto port = listener->port;
    auto unserved = hold_free_port();  // bound, but nobody listens on it
    REQUIRE(unserved);
    CHECK(unserved->port != port);
    ReadyProbe probe(*loop, {"127.0.0.1", unserved->port}, {.kind = ReadyCheck::Kind::kTcp});
    probe.tick(ReadyProbe::Clock::now());
    for (int round = 0; round < 10; ++round) loop->run_once(milliseconds(10));
    CHECK_FALSE(probe.is_ready());
    CHECK(probe.problem().ends_with("Connection refused (ECONNREFUSED)"));
  }
}

TEST_CASE("a port can be held again after its release, but not while a program listens on it") {
  auto held = hold_free_port();
  REQUIRE(held);
  const auto port = held->port;
  held->socket.reset();
  auto again = hold_port(port);
  REQUIRE(again);
  CHECK(again->port == port);
  REQUIRE(::listen(again->socket.get(), 1) == 0);
  const auto third = hold_port(port);
  REQUIRE_FALSE(third);
  CHECK(third.error().message.find(fmt::format("TCP port {} cannot be bound", port)) == 0);
}

TEST_CASE("the first line of an HTTP response is read, and any other text is no response") {
  CHECK(parse_http_status("HTTP/1.1 200 OK\r\n") == 200);
  CHECK(parse_http_status("HTTP/1.0 503 Service Unavailable\r\n") == 503);
  for (const auto* text : {"", "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 2", "HTTP/1.1 abc", "SSH-2.0",
                           "HTTP/1.1 -20 OK", "200 OK"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_http_status(text));
  }
}

}  // namespace
}  // namespace dlrun::agent
