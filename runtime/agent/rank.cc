// The phases of a rank: connect to lead, say hello, wait until all ranks have joined, check
// collectives, start the program, and relay messages in both directions.
#include "runtime/agent/rank.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/address.h"
#include "runtime/agent/agent_log.h"
#include "runtime/agent/collective_check.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/guard.h"
#include "runtime/agent/lead_connection.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/node_check.h"
#include "runtime/agent/program_env.h"
#include "runtime/agent/program_meter.h"
#include "runtime/agent/program_output.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/progress_file.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/rank_runner.h"
#include "runtime/agent/secrets.h"
#include "runtime/agent/store_relay.h"

namespace dlrun::agent {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kPortWait{5000};
constexpr milliseconds kPortTriedEvery{100};

/// Restores the TMPDIR of the spec in env. slurmstepd sets TMPDIR to /tmp if slurmstepd can neither
/// create this folder nor write to it. The rank may still be able to write to the folder, for
/// example in a container. If the rank cannot write to the folder either, returns the reason and
/// leaves env unchanged. wanted: the TMPDIR of the spec; empty: keep the present one.
std::optional<std::string> restore_tmpdir(const std::string& wanted, Env& env) {
  const auto got = env.get_or("TMPDIR", "");
  if (wanted.empty() || got == wanted) return std::nullopt;
  if (auto problem = disk_problem(wanted))
    return fmt::format("{} (TMPDIR of environment.vars; Slurm has put '{}' in its place)", *problem,
                       printable(got));
  env.set("TMPDIR", wanted);
  return std::nullopt;
}

}  // namespace

RankRunner::RankRunner(const RankOptions& options, Env env, const World& world, EventLoop& loop,
                       int signal_fd)
    : options_(options),
      env_(std::move(env)),
      world_(world),
      loop_(loop),
      signal_fd_(signal_fd),
      host_(own_host()),
      state_(*this, Clock::now()),
      output_(loop, [this](const std::string& message) { warn(message); }),
      lead_(
          loop, [this](std::string_view payload) { on_message(payload); },
          [this] { on_lead_closed(); }) {}

void RankRunner::warn(const std::string& message) {
  log_info("warned", {{"message", message}});
  if (lead_.is_open()) {
    lead_.send(to_lead::Warning{message});  // lead prints and records it
  } else {
    say(message);
  }
}

void RankRunner::say(std::string_view line) {
  log_info("said", {{"message", line}});
  output_.say(fmt::format("dlrun: rank {} on {}: {}\n", world_.rank, host_, line));
}

void RankRunner::send(const MessageToLead& message) {
  if (const auto* exit = std::get_if<to_lead::Exit>(&message)) {
    log_info("the rank ends",
             {{"code", exit->end.code}, {"signal", exit->end.signal}, {"error", exit->end.error}});
  }
  lead_.send(message);
}

std::optional<int> RankRunner::join_lead() {
  tmpdir_problem_ = restore_tmpdir(options_.tmpdir, env_);
  if (options_.checks.has_check_of_node())
    node_problems_ = node_problems(options_.checks, env_, world_);
  const bool fails_disk_check = options_.checks.disk && tmpdir_problem_;
  if (fails_disk_check && world_.local_rank == 0) node_problems_.push_back(*tmpdir_problem_);
  if (const auto joined = connect_and_say_hello(); !joined) {
    if (const auto code = state_.exit_code()) return code;
    say(joined.error().message);
    return kExitNotJoined;
  }
  open_log();
  if (tmpdir_problem_ && !fails_disk_check && world_.local_rank == 0) warn(*tmpdir_problem_);
  return std::nullopt;
}

Result<> RankRunner::connect_and_say_hello() {
  const auto should_stop = [this] {
    take_signals();
    return state_.exit_code().has_value();
  };
  DLRUN_TRY(lead_.connect(env_, world_.rank, should_stop));
  state_.on_connected();
  log_info("connected to lead", {{"lead", env_.get_or("DLRUN_LEAD", "")},
                                 {"own_address", lead_.own_address()},
                                 {"world_size", world_.size},
                                 {"host", host_}});
  to_lead::Hello hello{.world = world_,
                       .host = host_,
                       .addr = lead_.own_address(),
                       .pid = ::getpid(),
                       .port = held_port_.port,
                       .complaint = dlrun::join(node_problems_, "; ")};
  hello.stages = stages_here();
  if (copies_outputs_here()) hello.collect_limit = collect_limit();
  if (options_.checks.clock) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    hello.time = std::chrono::duration_cast<milliseconds>(now);
  }
  lead_.send(hello);
  // Messages that arrived together with lead's MAC are in the buffer already, so the socket does
  // not become readable for them.
  lead_.receive();
  return {};
}

void RankRunner::open_log() {
  const auto run = env_.get_or("DLRUN_RUN", "");
  if (run.empty()) return;
  output_.open_log(std::filesystem::path(run) / "logs" /
                   fmt::format("attempt-{}", env_.get_or("DLRUN_ATTEMPT", "0")) /
                   fields_.component / fmt::format("rank-{:04}.log", world_.rank));
}

void RankRunner::on_start(const std::string& addr, const std::string& master_addr,
                          int master_port) {
  if (!fields_.addr.empty()) return;  // lead's order came twice
  fields_.addr = addr;
  fields_.master_addr = master_addr;
  fields_.master_port = master_port;
  if (!needs_addresses(options_)) return start_check_or_program();
  if (lead_.has_connected()) {
    table_.emplace(world_.size);
    return lead_.send(to_lead::TableRequest{0});
  }
  if (world_.size > 1) {
    return give_up(
        kExitUsage,
        "a template needs the addresses of all ranks, which only dlrun-agent lead knows");
  }
  fields_.addresses = {{addr, held_port_.port}};
  start_check_or_program();
}

void RankRunner::handle(const to_rank::TablePage& page) {
  if (!table_ || !state_.awaits_start()) return;
  if (const auto added = table_->add(page.page); !added)
    return give_up(kExitInternal, added.error().message);
  if (!table_->is_whole())
    return lead_.send(to_lead::TableRequest{static_cast<std::int64_t>(table_->next_rank())});
  fields_.addresses = table_->table();
  table_.reset();
  start_check_or_program();
}

void RankRunner::start_check_or_program() {
  state_.on_start();
  if (options_.checks.collective.empty() || !lead_.has_connected()) return start_program();
  if (const auto started = start_collective_check(); !started) {
    state_.on_check_end(
        CollectiveCheck::failure(options_.checks.collective, started.error().message, true),
        Clock::now());
  }
}

Result<> RankRunner::start_collective_check() {
  auto env = program_env(env_, options_, fields_);
  if (!env) return tl::unexpected<Error>(std::move(env.error()));
  auto check =
      CollectiveCheck::start(loop_, options_.checks, std::move(*env),
                             [this](const MessageToLead& message) { lead_.send(message); });
  if (!check) return tl::unexpected<Error>(std::move(check.error()));
  check_ = std::move(*check);
  return {};
}

void RankRunner::start_program() {
  if (const auto found = check_staged_data(); !found)
    return give_up(kExitStaging, found.error().message);
  if (const auto started = launch_program(); !started)
    give_up(exit_code_of(started.error()), started.error().message);
}

Result<> RankRunner::launch_program() {
  auto env = program_env(env_, options_, fields_);
  if (!env) return tl::unexpected<Error>(std::move(env.error()));
  DLRUN_TRY(output_.open_pipes());
  Program program{.argv = program_argv(options_, fields_),
                  .env = std::move(*env),
                  .out = output_.program_out(),
                  .err = output_.program_err(),
                  .dies_with_us = true};
  DLRUN_TRY(add_secrets(program.env, options_.secrets, fields_.run));
  if (options_.profile.includes(world_.rank)) {
    DLRUN_TRY_ASSIGN(program.argv,
                     prepare_profiling(options_.profile, program.env, folder_of_attempt("profile"),
                                       world_.rank, program.argv));
    program.may_be_traced = true;
  }
  if (options_.program_is_bundled && lead_.has_connected()) {
    auto store = StoreRelay::create(
        loop_, [this](const MessageToLead& message) { on_program_message(message); });
    if (!store) return tl::unexpected<Error>(std::move(store.error()));
    store_ = std::move(*store);
    program.inherited_fd = store_->program_socket();
    program.env.set("DLRUN_STORE", fmt::format("fd:{}", program.inherited_fd));
  }
  // Rank 0 reports for all ranks. The trainer uses the store instead of the file.
  if (world_.rank == 0 && lead_.has_connected() && !store_) {
    auto file = ProgressFile::create();
    if (!file) return tl::unexpected<Error>(std::move(file.error()));
    program.env.set("DLRUN_PROGRESS", file->path());
    progress_file_ = std::move(*file);
  }
  const auto pid = agent::start_program(program);
  if (store_) store_->release_program_socket();
  if (!pid) return tl::unexpected<Error>(pid.error());
  program_pid_ = *pid;
  state_.on_program_start();
  output_.begin();
  if (lead_.has_connected()) meter_.begin(loop_, env_, world_);
  schedule_outputs(Clock::now());
  return {};
}

bool RankRunner::note_blame(const Json& body) {
  if (!body.is_object()) return false;
  const auto message = body.find("failed");
  const auto blamed = body.find("of");
  if (message == body.end() || !message->is_string() || blamed == body.end() ||
      !blamed->is_number_integer())
    return false;
  const auto rank = blamed->get<std::int64_t>();
  state_.on_blame(rank >= 0 && rank < world_.size ? static_cast<int>(rank) : -1,
                  message->get<std::string>());
  return true;
}

void RankRunner::on_program_message(const MessageToLead& message) {
  const auto* progress = std::get_if<to_lead::Progress>(&message);
  if (progress == nullptr) return lead_.send(message);
  if (!note_blame(progress->body)) on_progress(*progress);
}

void RankRunner::on_progress(const to_lead::Progress& progress) {
  if (progress.body.is_object()) {
    meter_.on_progress(progress.body);
    // The progress of rank 0 is the progress of the run. Other ranks send theirs with the
    // heartbeat, so that 10,000 ranks cause no further messages to lead.
    if (world_.rank != 0) return;
  }
  lead_.send(progress);
}

void RankRunner::send_beat(Clock::time_point now) {
  to_lead::Beat beat{.has_printed = output_.take_has_printed()};
  if (program_pid_ > 0) meter_.add_news(beat, now);
  lead_.send(beat);
}

void RankRunner::on_message(std::string_view payload) {
  state_.on_heard();
  if (const auto message = parse_to_rank(payload))
    std::visit([&](const auto& one) { handle(one); }, *message);
}

void RankRunner::handle(const to_rank::Start& message) {
  if (!state_.awaits_start()) return;
  if (message.marks_stderr) {
    mark_stderr();
  } else if (world_.size > 1) {
    output_.keep_lines_whole();
  }
  fields_.components = message.components;
  on_start(message.addr, message.master_addr, message.master_port);
}

void RankRunner::handle(const to_rank::Reply& reply) {
  if (check_) {
    check_->on_reply(reply);
  } else if (store_) {
    store_->on_reply(reply);
  }
}

void RankRunner::mark_stderr() {
  if (const auto secret = key_of_text(env_.get_or("DLRUN_SECRET", "")))
    output_.mark_stderr(marks_of(*secret));
}

void RankRunner::begin_autopsy() {
  const auto pids = program_pid_ > 0 ? descendants() : std::vector<pid_t>();
  const auto started = pids.empty()
                           ? Result<>(fail(Errc::kNotFound, "there is no process"))
                           : autopsy_.start(env_, world_, folder_of_attempt("autopsy"), pids);
  if (!started) lead_.send(to_lead::Autopsy{});  // no stack to show
}

std::filesystem::path RankRunner::folder_of_attempt(std::string_view kind) const {
  if (fields_.run.empty()) return {};
  return std::filesystem::path(fields_.run) / kind / fmt::format("attempt-{}", fields_.attempt) /
         fields_.component;
}

void RankRunner::look_at_progress(bool is_last) {
  if (!progress_file_) return;
  if (auto news = progress_file_->take_news()) on_progress(to_lead::Progress{std::move(*news)});
  if (const auto problem = progress_file_->take_problem(is_last)) {
    warn(fmt::format(
        R"(the program's DLRUN_PROGRESS cannot be used: {}. Write one whole JSON object each )"
        R"(time, such as {{"step": 120, "steps": 5000, "loss": 0.5}})",
        *problem));
  }
}

void RankRunner::look_at_program() {
  look_at_progress();
  state_.on_look(program_pid_ > 0 && is_suspended(program_pid_));
}

void RankRunner::tick() {
  reap();  // a SIGCHLD can be lost
  const auto now = Clock::now();
  state_.tick(now);
  tick_copies(now);
  if (!state_.is_ending()) {
    meter_.tick(now);
    if (check_) check_->tick(now);
  }
  output_.tick();
}

namespace {

/// Returns the fields whose values do not depend on other ranks. The other fields are empty.
TemplateValues own_values(const RankOptions& options, const Env& env, const World& world) {
  TemplateValues fields;
  fields.world = world;
  fields.run = env.get_or("DLRUN_RUN", "");
  fields.attempt = static_cast<int>(parse_int(env.get_or("DLRUN_ATTEMPT", "0")).value_or(0));
  fields.job = env.get_or("DLRUN_JOB", env.get_or("SLURM_JOB_ID", ""));
  fields.nproc_per_node = options.nproc_per_node;
  fields.roles = options.roles;
  fields.component = component_of(env);
  return fields;
}

/// Holds any free port. In a component that starts again, rank 0 holds its former port instead, and
/// waits for it up to kPortWait: the kernel may not have closed the sockets of the former start
/// yet.
Result<BoundPort> hold_port_of_rank(const Env& env, int rank) {
  const auto wanted = rank == 0 ? parse_int(env.get_or("DLRUN_HELD_PORT", "0")).value_or(0) : 0;
  if (wanted < 1 || wanted > 65535) return hold_free_port();
  for (const auto until = std::chrono::steady_clock::now() + kPortWait;;) {
    auto held = hold_port(static_cast<std::uint16_t>(wanted));
    if (held || std::chrono::steady_clock::now() >= until) return held;
    std::this_thread::sleep_for(kPortTriedEvery);
  }
}

}  // namespace

bool RankRunner::prepare() {
  set_missing_tmpdir(options_.stage, options_.outputs, env_);
  if (!options_.outputs.empty())
    state_.wait_longer_for_confirmation(collect_limit() + kOutputsMargin);
  fields_ = own_values(options_, env_, world_);
  const bool is_component = !fields_.component.empty();
  // Rank 0's port is the address of its component.
  const bool is_needed = needs_port(options_, is_component) || (is_component && world_.rank == 0);
  if (world_.rank != 0 && !is_needed) return true;
  if (auto held = hold_port_of_rank(env_, world_.rank)) {
    held_port_ = std::move(*held);
    fields_.port = held_port_.port;
  } else if (is_needed) {
    say(held.error().message);
    return false;
  }
  return true;
}

void RankRunner::start_without_lead() {
  if (!options_.stage.empty() && world_.size > 1)
    return give_up(kExitUsage, "only dlrun-agent lead can stage data for several ranks (--stage)");
  const bool is_single_rank = world_.size == 1;
  on_start(is_single_rank ? "127.0.0.1" : "", is_single_rank ? "127.0.0.1" : "", held_port_.port);
}

int RankRunner::run() {
  const auto signals = loop_.watch(signal_fd_, EPOLLIN, [this](std::uint32_t) { take_signals(); });
  if (!prepare()) return kExitInternal;
  if (env_.has("DLRUN_LEAD")) {
    if (const auto code = join_lead()) return *code;
  } else {
    open_log();
    tmpdir_problem_ = restore_tmpdir(options_.tmpdir, env_);
    if (tmpdir_problem_ && world_.local_rank == 0) warn(*tmpdir_problem_);
    stages_here() ? start_staging() : start_without_lead();
  }
  while (!is_done()) {
    loop_.run_once(next_wait());
    tick();
  }
  if (signals) loop_.unwatch(*signals);
  return state_.exit_code().value_or(kExitInternal);
}

namespace {

void print_of_rank(const World& world, std::string_view line) {
  std::ignore = write_all(STDERR_FILENO,
                          fmt::format("dlrun: rank {} on {}: {}\n", world.rank, own_host(), line));
}

int refuse(const World& world, const Error& error, int exit_code) {
  print_of_rank(world, error.message);
  return exit_code;
}

/// Returns the names of the given options that need an agent beside the program.
std::vector<std::string> options_of_agent(const RankOptions& options, int rank) {
  std::vector<std::string> names;
  if (options.checks.has_check_of_node() || !options.checks.collective.empty())
    names.emplace_back("--preflight");
  if (!options.outputs.empty()) names.emplace_back("--output");
  if (options.profile.includes(rank)) names.emplace_back("--profile");
  return names;
}

}  // namespace

int run_rank(const RankOptions& options, const Env& env) {
  const auto world = read_world(env, ProcessKind::kRankAgent);
  if (!world) return refuse({}, world.error(), kExitUsage);
  if (auto checked = check_roles(options, world->size); !checked)
    return refuse(*world, checked.error(), kExitUsage);
  if (::isatty(STDIN_FILENO) == 1 && !env.has("DLRUN_LEAD")) {
    // The program replaces this process, so that it keeps the terminal as its input and output.
    auto own_env = env;
    if (const auto problem = restore_tmpdir(options.tmpdir, own_env);
        problem && world->local_rank == 0)
      print_of_rank(*world, *problem);
    if (const auto names = options_of_agent(options, world->rank); !names.empty())
      print_of_rank(*world,
                    fmt::format("on a terminal, the program replaces the agent. These options have "
                                "no effect then: {}",
                                dlrun::join(names, ", ")));
    set_missing_tmpdir(options.stage, options.outputs, own_env);
    if (const auto report = stage_data({options.stage, world->nnodes}, own_env);
        !report.error.empty())
      return refuse(*world, {Errc::kIo, report.error}, kExitStaging);
    auto fields = own_values(options, env, *world);
    fields.addr = fields.master_addr = "127.0.0.1";
    // The port is free again once the program has replaced this process.
    fields.addresses = {{fields.addr, 0}};
    if (const auto held = hold_free_port()) {
      fields.port = fields.master_port = held->port;
      fields.addresses = {{fields.addr, held->port}};
    }
    auto env_of_program = program_env(own_env, options, fields);
    if (!env_of_program)
      return refuse(*world, env_of_program.error(), exit_code_of(env_of_program.error()));
    if (auto added = add_secrets(*env_of_program, options.secrets, fields.run); !added)
      return refuse(*world, added.error(), kExitUsage);
    const auto argv = program_argv(options, fields);
    const AgentLog log(env, env.get_or("DLRUN_RUN", ""), fmt::format("rank {}", world->rank),
                       rank_debug_log_name(component_of(env), "rank", world->rank));
    log_info("this process becomes the command", {{"argv", argv}});
    log.flush();
    const auto error = become_program(argv, *env_of_program);
    return refuse(*world, error, exit_code_of(error));
  }
  int exit_code = kExitInternal;
  const auto signals = fork_into_guard_and_agent(exit_code);
  if (!signals) return exit_code;  // this process is the guard, and the agent has ended
  const AgentLog log(env, env.get_or("DLRUN_RUN", ""), fmt::format("rank {}", world->rank),
                     rank_debug_log_name(component_of(env), "rank", world->rank));
  ignore_write_signals();
  if (auto ready = init_crypto(); !ready) return refuse(*world, ready.error(), kExitInternal);
  adopt_orphans();
  auto loop = EventLoop::create();
  if (!loop) return refuse(*world, loop.error(), kExitInternal);
  return RankRunner(options, env, *world, *loop, signals->get()).run();
}

}  // namespace dlrun::agent
