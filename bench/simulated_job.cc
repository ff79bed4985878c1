// A simulated rank does what an agent does until its program starts: it connects, proves that it
// holds the secret, says hello and sends heartbeats. One event loop serves all ranks.
#include "bench/simulated_job.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/intervals.h"
#include "runtime/agent/link.h"
#include "runtime/agent/messages.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMasterPort = 29500;       ///< the port in the hello of rank 0
constexpr int kTimersPerRound = 256;     ///< timers that one round of the loop handles
constexpr seconds kJoinLimit{120};       ///< longest time until all ranks have received Start
constexpr seconds kDeathKnownLimit{20};  ///< longest time until all ranks know of the death
/// Longest wait for all connections to close. If some connections are still open then, the
/// simulation ends all the same, without a failure. A rank closes its connection when lead has
/// answered its exit record. The limit is below 3 s, because lead kills this program 3 s after the
/// death.
constexpr milliseconds kClosedLimit{2500};
constexpr std::size_t kProcLimitBytes = 64U << 10U;

/// Processor time of a process, with all its threads.
struct ProcessorTime {
  double user_s = 0, system_s = 0;
};

Result<ProcessorTime> processor_time_of(pid_t pid) {
  DLRUN_TRY_ASSIGN(const auto stat, read_file(fmt::format("/proc/{}/stat", pid), kProcLimitBytes));
  // The command, field 2, is in parentheses and may contain spaces. Fields 14 and 15 are the times.
  const auto after = std::string_view(stat).substr(std::min(stat.rfind(')'), stat.size()));
  const auto fields = split(after, ' ');
  constexpr std::size_t kUser = 12;
  const auto user = fields.size() > kUser + 1 ? parse_int(fields[kUser]) : std::nullopt;
  const auto system = fields.size() > kUser + 1 ? parse_int(fields[kUser + 1]) : std::nullopt;
  if (!user || !system)
    return fail(Errc::kInternal, "/proc/{}/stat has no processor times in fields 14 and 15", pid);
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ProcessorTime{static_cast<double>(*user) / ticks, static_cast<double>(*system) / ticks};
}

Result<std::int64_t> peak_bytes_of(pid_t pid) {
  DLRUN_TRY_ASSIGN(const auto status,
                   read_file(fmt::format("/proc/{}/status", pid), kProcLimitBytes));
  constexpr std::string_view kPeak = "VmHWM:";
  for (const auto line : split(status, '\n')) {
    if (!line.starts_with(kPeak)) continue;
    const auto value = trim(line.substr(kPeak.size()));
    if (const auto kib = parse_int(value.substr(0, value.find(' ')))) return *kib * 1024;
  }
  return fail(Errc::kInternal, "/proc/{}/status has no VmHWM", pid);
}

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

enum class RankPhase {
  kWaiting,  ///< a try to connect follows
  kTrying,   ///< a try to connect is under way
  kJoined,   ///< the rank has said hello
  kStarted,  ///< the rank knows the address of rank 0
  kEnding,   ///< the rank was told to end and has sent its exit record
  kGone,     ///< lead has answered the exit record, or the connection is closed
};

struct SimulatedRank {
  int number = 0;
  RankPhase phase = RankPhase::kWaiting;
  Clock::time_point due{};  ///< when on_timer() is called for this rank next
  std::optional<LinkTry> link_try{};
  std::optional<Link> link{};
  std::optional<EventLoop::Watch> watch{};
  LinkPace pace{};
  std::int64_t step = 0;  ///< training step in the rank's heartbeats
};

/// All ranks of the job, and the measurements. One thread.
class Simulation {
 public:
  Simulation(const SimulationOptions& options, LeadAccess lead, EventLoop loop)
      : options_(options), lead_(std::move(lead)), loop_(std::move(loop)) {
    ranks_.resize(static_cast<std::size_t>(options.ranks));
    for (int number = 0; number < options.ranks; ++number) rank_at(number).number = number;
  }

  /// Runs the job to its end. Fails as simulate_job() does.
  Result<nlohmann::ordered_json> run();

 private:
  enum class Phase { kJoining, kSettling, kWatching, kDying, kOver };

  [[nodiscard]] SimulatedRank& rank_at(int number) {
    return ranks_[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] int nodes() const {
    return (options_.ranks + options_.ranks_per_node - 1) / options_.ranks_per_node;
  }
  [[nodiscard]] int victim() const { return options_.ranks / 2; }
  /// Returns the address of the rank's node, such as 127.1.0.1.
  [[nodiscard]] std::string address_of(int number) const;
  [[nodiscard]] World world_of(int number) const;

  void schedule(SimulatedRank& rank, Clock::time_point when);
  void handle_timers(Clock::time_point now);
  void on_timer(SimulatedRank& rank, Clock::time_point now);
  void begin_try(SimulatedRank& rank, Clock::time_point now);
  void try_later(SimulatedRank& rank, const Error& why, Clock::time_point now);
  void on_ready(int number, std::uint32_t events);
  void advance_try(SimulatedRank& rank, Clock::time_point now);
  void say_hello(SimulatedRank& rank, Clock::time_point now);
  void send_beat(SimulatedRank& rank, Clock::time_point now);
  void send(SimulatedRank& rank, const MessageToLead& message);
  void receive(SimulatedRank& rank);
  void close(SimulatedRank& rank);

  void handle(SimulatedRank& rank, const to_rank::Start& start);
  void handle(SimulatedRank& rank, const to_rank::End& end);
  void handle(SimulatedRank&, const to_rank::Beat&) {}
  void handle(SimulatedRank& rank, const to_rank::ExitConfirmed&) { rank.phase = RankPhase::kGone; }
  template <typename Message>
  void handle(SimulatedRank&, const Message&) {}

  /// Calls begin_next_phase() if the present phase is complete. Records a failure if the phase has
  /// reached its time limit.
  void update_phase(Clock::time_point now);
  Result<> begin_next_phase(Clock::time_point now);
  void record_failure(std::string why) {
    if (!failure_) failure_ = Error{Errc::kUnavailable, std::move(why)};
  }

  SimulationOptions options_;
  LeadAccess lead_;
  EventLoop loop_;
  std::vector<SimulatedRank> ranks_;
  using Timer = std::pair<Clock::time_point, int>;  ///< the time, and the number of the rank
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;

  Phase phase_ = Phase::kJoining;
  Clock::time_point began_{}, phase_began_{};
  Clock::time_point told_last_{};    ///< when a rank last received Start or End
  Clock::time_point closed_last_{};  ///< when a connection was last closed
  int started_count_ = 0;            ///< ranks that have received Start
  int told_to_end_count_ = 0;        ///< ranks that have received End
  int closed_count_ = 0;             ///< ranks whose connection is closed
  std::int64_t try_count_ = 0;       ///< tries to connect of all ranks
  std::string last_try_error_;
  ProcessorTime time_before_watching_{};  ///< lead's, at the beginning of Phase::kWatching
  nlohmann::ordered_json measured_;
  std::optional<Error> failure_;
};

std::string Simulation::address_of(int number) const {
  const int node = number / options_.ranks_per_node;
  return fmt::format("127.{}.{}.{}", 1 + node / 62'500, node / 250 % 250, 1 + node % 250);
}

World Simulation::world_of(int number) const {
  const int first = number - number % options_.ranks_per_node;
  return {.rank = number,
          .size = options_.ranks,
          .local_rank = number % options_.ranks_per_node,
          .local_size = std::min(options_.ranks_per_node, options_.ranks - first),
          .node_rank = number / options_.ranks_per_node,
          .nnodes = nodes()};
}

void Simulation::schedule(SimulatedRank& rank, Clock::time_point when) {
  rank.due = when;
  timers_.emplace(when, rank.number);
}

/// Handles timers that are due, at most kTimersPerRound of them. A timer is valid only if the
/// rank's `due` is still the time of the timer.
void Simulation::handle_timers(Clock::time_point now) {
  for (int handled = 0;
       handled < kTimersPerRound && !timers_.empty() && timers_.top().first <= now;) {
    const auto [when, number] = timers_.top();
    timers_.pop();
    auto& rank = rank_at(number);
    if (rank.due != when) continue;
    on_timer(rank, now);
    ++handled;
  }
}

void Simulation::on_timer(SimulatedRank& rank, Clock::time_point now) {
  switch (rank.phase) {
    case RankPhase::kWaiting:
      return begin_try(rank, now);
    case RankPhase::kTrying:
      return try_later(rank, {Errc::kTimeout, "no answer in time"}, now);
    case RankPhase::kJoined:
    case RankPhase::kStarted:
      return send_beat(rank, now);
    case RankPhase::kEnding:
    case RankPhase::kGone:
      return;
  }
}

void Simulation::begin_try(SimulatedRank& rank, Clock::time_point now) {
  ++try_count_;
  const RankIdentity identity{lead_.job, lead_.step, lead_.attempt, rank.number};
  auto link_try = LinkTry::begin(lead_.endpoint, lead_.secret, identity, rank.pace.try_limit(),
                                 address_of(rank.number));
  if (!link_try) return try_later(rank, link_try.error(), now);
  rank.link_try = std::move(*link_try);
  rank.phase = RankPhase::kTrying;
  rank.watch =
      loop_.watch(rank.link_try->socket(), EPOLLOUT,
                  [this, number = rank.number](std::uint32_t events) { on_ready(number, events); });
  schedule(rank, rank.link_try->until());
}

void Simulation::try_later(SimulatedRank& rank, const Error& why, Clock::time_point now) {
  last_try_error_ = why.message;
  if (rank.watch) loop_.unwatch(*rank.watch);
  rank.watch.reset();
  rank.link_try.reset();
  rank.phase = RankPhase::kWaiting;
  schedule(rank, now + rank.pace.next_pause());
}

void Simulation::on_ready(int number, std::uint32_t events) {
  auto& rank = rank_at(number);
  if (rank.phase == RankPhase::kTrying) return advance_try(rank, Clock::now());
  if (!rank.link) return;
  if ((events & EPOLLOUT) != 0) {
    rank.link->flush();
    if (!rank.link->holds_bytes()) loop_.change(*rank.watch, EPOLLIN);
  }
  receive(rank);
}

void Simulation::advance_try(SimulatedRank& rank, Clock::time_point now) {
  const bool was_connecting = rank.link_try->is_connecting();
  auto link = rank.link_try->advance();
  if (!link) return try_later(rank, link.error(), now);
  if (was_connecting) loop_.change(*rank.watch, EPOLLIN);
  if (!*link) return schedule(rank, rank.link_try->until());
  rank.link = std::move(**link);
  rank.link_try.reset();
  say_hello(rank, now);
}

void Simulation::say_hello(SimulatedRank& rank, Clock::time_point now) {
  rank.phase = RankPhase::kJoined;
  const auto world = world_of(rank.number);
  send(rank, to_lead::Hello{.world = world,
                            .host = fmt::format("node{:05}", world.node_rank),
                            .addr = address_of(rank.number),
                            .pid = 1000 + rank.number,
                            .port = rank.number == 0 ? kMasterPort : 0});
  schedule(rank, now + kBeatEvery);
  // The buffer may hold messages that arrived together with lead's MAC (message authentication
  // code).
  if (rank.link) receive(rank);
}

/// Sends a heartbeat. A rank that has started sends its values, too, and the first rank of a node
/// also sends those of the node's GPUs.
void Simulation::send_beat(SimulatedRank& rank, Clock::time_point now) {
  to_lead::Beat beat;
  if (rank.phase == RankPhase::kStarted) {
    beat.has_printed = rank.number == 0;
    beat.cpu = 1.003;
    beat.rss_bytes = 2'147'483'648U + static_cast<std::uint64_t>(rank.number);
    beat.step = ++rank.step;
    beat.work_ms = 12.75;
    if (rank.number % options_.ranks_per_node == 0)
      beat.node_gpus = std::vector<GpuUse>(static_cast<std::size_t>(options_.ranks_per_node),
                                           {97.0, 61'203'283'968U, 85'899'345'920U});
  }
  schedule(rank, now + kBeatEvery);
  send(rank, beat);
}

void Simulation::send(SimulatedRank& rank, const MessageToLead& message) {
  rank.link->send(text_of(json_of(message)));
  if (!rank.link->is_open() && rank.phase != RankPhase::kEnding) {
    record_failure(
        fmt::format("rank {} cannot send to lead: {}", rank.number, rank.link->why_closed()));
  } else if (rank.link->is_open() && rank.link->holds_bytes()) {
    loop_.change(*rank.watch, EPOLLIN | EPOLLOUT);
  }
}

void Simulation::receive(SimulatedRank& rank) {
  const bool is_open = rank.link->receive([&](std::string_view payload) {
    if (const auto message = parse_to_rank(payload))
      std::visit([&](const auto& one) { handle(rank, one); }, *message);
  });
  if (is_open && rank.phase != RankPhase::kGone) return;
  if (rank.phase == RankPhase::kJoined || rank.phase == RankPhase::kStarted) {
    record_failure(fmt::format("rank {} lost its connection to lead: {}", rank.number,
                               rank.link->why_closed()));
  }
  close(rank);
}

void Simulation::close(SimulatedRank& rank) {
  if (rank.watch) loop_.unwatch(*rank.watch);
  rank.watch.reset();
  rank.link.reset();
  rank.phase = RankPhase::kGone;
  ++closed_count_;
  closed_last_ = Clock::now();
}

void Simulation::handle(SimulatedRank& rank, const to_rank::Start& start) {
  if (rank.phase != RankPhase::kJoined) return;
  // All ranks connect from loopback addresses. Lead replaces a loopback address by its own address.
  if (start.master_addr.empty() || start.master_port != kMasterPort ||
      start.addr != start.master_addr) {
    return record_failure(fmt::format(
        "rank {} was told that rank 0 is at {}:{} and itself at {}; expected one address "
        "for both, and port {}",
        rank.number, start.master_addr, start.master_port, start.addr, kMasterPort));
  }
  rank.phase = RankPhase::kStarted;
  ++started_count_;
  told_last_ = Clock::now();
}

void Simulation::handle(SimulatedRank& rank, const to_rank::End&) {
  if (rank.phase != RankPhase::kStarted) return;
  if (phase_ != Phase::kDying)
    return record_failure(
        fmt::format("rank {} was told to end before a rank had died", rank.number));
  rank.phase = RankPhase::kEnding;
  ++told_to_end_count_;
  told_last_ = Clock::now();
  send(rank,
       to_lead::Exit{
           {.code = 128 + SIGTERM, .signal = SIGTERM, .error = {}, .ended_by_itself = false}});
}

void Simulation::update_phase(Clock::time_point now) {
  switch (phase_) {
    case Phase::kJoining:
      if (now > began_ + kJoinLimit)
        record_failure(
            fmt::format("only {} of {} ranks were told to start within {} s; the last error "
                        "of a try to connect: {}",
                        started_count_, options_.ranks, kJoinLimit.count(),
                        last_try_error_.empty() ? "none" : last_try_error_));
      if (started_count_ < options_.ranks) return;
      measured_["joined_s"] = seconds_between(began_, told_last_);
      measured_["repeated_tries"] = try_count_ - options_.ranks;
      break;
    case Phase::kSettling:
      if (now < phase_began_ + options_.settle) return;
      break;
    case Phase::kWatching:
      if (now < phase_began_ + options_.watch) return;
      break;
    case Phase::kDying:
      if (now > phase_began_ + kDeathKnownLimit)
        record_failure(fmt::format("only {} of {} ranks were told of the death within {} s",
                                   told_to_end_count_, options_.ranks - 1,
                                   kDeathKnownLimit.count()));
      if (told_to_end_count_ < options_.ranks - 1) return;
      if (closed_count_ < options_.ranks && now < phase_began_ + kClosedLimit) return;
      break;
    case Phase::kOver:
      return;
  }
  if (auto done = begin_next_phase(now); !done) failure_ = std::move(done.error());
}

/// Records the measurements of the present phase, and begins the next phase. update_phase() has
/// recorded those of Phase::kJoining.
Result<> Simulation::begin_next_phase(Clock::time_point now) {
  if (phase_ == Phase::kSettling) {
    DLRUN_TRY_ASSIGN(time_before_watching_, processor_time_of(lead_.pid));
  } else if (phase_ == Phase::kWatching) {
    DLRUN_TRY_ASSIGN(const auto after, processor_time_of(lead_.pid));
    measured_["watched_s"] = seconds_between(phase_began_, now);
    measured_["user_s"] = after.user_s - time_before_watching_.user_s;
    measured_["system_s"] = after.system_s - time_before_watching_.system_s;
  } else if (phase_ == Phase::kDying) {
    measured_["death_s"] = seconds_between(phase_began_, told_last_);
    measured_["gone"] = closed_count_;
    measured_["gone_s"] = seconds_between(phase_began_, closed_last_);
    DLRUN_TRY_ASSIGN(const auto peak, peak_bytes_of(lead_.pid));
    measured_["peak_bytes"] = peak;
  }
  phase_ = static_cast<Phase>(static_cast<int>(phase_) + 1);
  phase_began_ = Clock::now();
  // The agent of the victim is killed: its connection ends without an exit record.
  if (phase_ == Phase::kDying) close(rank_at(victim()));
  return {};
}

Result<nlohmann::ordered_json> Simulation::run() {
  measured_ = {{"ranks", options_.ranks}, {"nodes", nodes()}, {"victim", victim()}};
  began_ = Clock::now();
  for (auto& rank : ranks_) schedule(rank, began_);
  while (phase_ != Phase::kOver && !failure_) {
    constexpr milliseconds kLongestWait{20};
    auto wait = kLongestWait;
    if (!timers_.empty()) {
      const auto left = std::chrono::ceil<milliseconds>(timers_.top().first - Clock::now());
      wait = std::clamp(left, milliseconds(0), kLongestWait);
    }
    loop_.run_once(wait);
    const auto now = Clock::now();
    handle_timers(now);
    update_phase(now);
  }
  if (failure_) return tl::unexpected(*failure_);
  return measured_;
}

}  // namespace

Result<nlohmann::ordered_json> simulate_job(const SimulationOptions& options,
                                            const LeadAccess& lead) {
  DLRUN_TRY_ASSIGN(auto loop, EventLoop::create());
  return Simulation(options, lead, std::move(loop)).run();
}

}  // namespace dlrun::agent
