#include "runtime/agent/attempt.h"

#include <signal.h>

#include <algorithm>

#include "common/hostlist.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/rank_table.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLaterFailuresLimit = 64;
constexpr int kJoinTimeoutCode = 76;
constexpr int kLaunchFailedCode = 77;
constexpr int kHangCode = 79;
constexpr milliseconds kProgressEvery{1000};
constexpr milliseconds kStoppedIsFresh{3000};

double seconds_between(Attempt::Clock::time_point from, Attempt::Clock::time_point to) {
  return static_cast<double>(std::chrono::duration_cast<milliseconds>(to - from).count()) / 1000.0;
}

int integer(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return -1;
  const auto value = found->get<std::int64_t>();
  return value < 0 || value > (1 << 24) ? -1 : static_cast<int>(value);
}

/// A count that a program reported; -1 where it did not.
std::int64_t count_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? std::max<std::int64_t>(found->get<std::int64_t>(), -1)
                                                             : -1;
}

std::string text(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// "3, 6-9, 12", cut after a line's length.
std::string ranges(const std::vector<int>& sorted) {
  std::string out;
  for (std::size_t at = 0; at < sorted.size();) {
    std::size_t last = at;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (out.size() > 160) return out + ", ...";
    if (!out.empty()) out += ", ";
    out += last == at ? std::to_string(sorted[at]) : fmt::format("{}-{}", sorted[at], sorted[last]);
    at = last + 1;
  }
  return out;
}

/// Slurm's word for why it ends a step, as a sentence.
std::string why_cancelled(std::string_view reason) {
  if (reason == "TIME LIMIT") return "the job reached its time limit (resources.time)";
  if (reason == "PREEMPTION") return "the job was preempted";
  if (reason == "JOB REQUEUE") return "the job was requeued";
  if (reason.starts_with("NODE FAILURE")) return "a node of the job failed";
  return fmt::format("Slurm ended the job: {}", printable(reason));
}

std::string how(const RankEnd& end) {
  if (!end.error.empty()) return fmt::format(": {}", printable(end.error));
  if (end.signal != 0) return fmt::format(" was killed by {}", signal_name(end.signal));
  return fmt::format(" exited with code {}", end.code);
}

Json failure_json(const FailedRank& failed) {
  return {{"rank", failed.rank},
          {"host", failed.host},
          {"pid", failed.pid},
          {"code", failed.end.code},
          {"signal", failed.end.signal == 0 ? std::string() : signal_name(failed.end.signal)},
          {"error", failed.end.error}};
}

}  // namespace

Result<Hello> Hello::of_json(const Json& message) {
  Hello hello;
  const auto world = message.find("world");
  if (world == message.end() || !world->is_object()) return fail(Errc::kInvalid, "a hello without its world");
  hello.world = {integer(*world, "rank"),       integer(*world, "size"),      integer(*world, "local_rank"),
                 integer(*world, "local_size"), integer(*world, "node_rank"), integer(*world, "nnodes")};
  hello.host = text(message, "host");
  hello.addr = text(message, "addr");
  hello.pid = integer(message, "pid");
  hello.port = integer(message, "port");
  const auto& w = hello.world;
  const bool is_whole = w.rank >= 0 && w.rank < w.size && w.local_rank >= 0 && w.local_rank < w.local_size &&
                        w.node_rank >= 0 && w.node_rank < w.nnodes;
  if (hello.port < 0 || hello.port > 65535) return fail(Errc::kInvalid, "a hello with port {}", hello.port);
  if (!is_whole) return fail(Errc::kInvalid, "a hello whose world contradicts itself: {}", world->dump());
  return hello;
}

Attempt::Attempt(AttemptOptions options, AttemptOutlet& outlet, Clock::time_point now)
    : options_(std::move(options)),
      outlet_(outlet),
      began_(now),
      size_(options_.ranks),
      hang_watch_(options_.hang_after) {}

bool Attempt::wants(int rank) const {
  return phase_ == Phase::kJoining && !ranks_.contains(rank) && (size_ == 0 || rank < size_);
}

std::string Attempt::host_of(int rank) const {
  if (const auto found = ranks_.find(rank); found != ranks_.end() && !found->second.hello.host.empty()) {
    return found->second.hello.host;
  }
  if (const auto found = task_ends_.find(rank); found != task_ends_.end()) return found->second.host;
  return {};
}

void Attempt::on_hello(int rank, const Hello& hello, Clock::time_point now) {
  if (phase_ != Phase::kJoining || ranks_.contains(rank)) return;
  if (size_ == 0) size_ = hello.world.size;
  ranks_[rank] = Rank{hello, true, std::nullopt};
  if (hello.world.rank != rank || hello.world.size != size_) {
    return fail_rank(rank,
                     {70, 0,
                      fmt::format("says that it is rank {} of {}; lead took it for rank {} of {}", hello.world.rank,
                                  hello.world.size, rank, size_)},
                     true, now);
  }
  if (++joined_ < size_) return;
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const auto& [number, member] : ranks_) {
    if (seen.insert(member.hello.host).second) hosts.push_back(member.hello.host);
  }
  outlet_.record("joined",
                 {{"ranks", size_}, {"hosts", compress_hostlist(hosts)}, {"seconds", seconds_between(began_, now)}});
  phase_ = Phase::kRunning;
  hang_watch_.on_start(now);
  start();
}

void Attempt::start() {
  const auto& first = ranks_.at(0).hello;
  for (const auto& [rank, member] : ranks_) {
    outlet_.send(
        rank,
        {{"type", "start"}, {"addr", member.hello.addr}, {"master_addr", first.addr}, {"master_port", first.port}});
  }
}

void Attempt::on_exit(int rank, RankEnd end, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  outlet_.send(rank, {{"type", "noted"}});
  if (found == ranks_.end() || found->second.end) return;
  if (end.code != 0 || end.signal != 0) {
    if (end.code == 0) end.code = 128 + end.signal;
    fail_rank(rank, std::move(end), true, now);
  } else {
    found->second.end = end;
    ++ended_;
  }
  finish_if_done(now);
}

void Attempt::on_lost(int rank, std::string_view why, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  found->second.is_connected = false;
  if (!found->second.end) {
    if (const auto told = task_ends_.find(rank); told != task_ends_.end() && told->second.end.code != 0) {
      fail_rank(rank, told->second.end, true, now);
    } else {
      // An agent leaves without a record only when it is killed, or with its node. The launcher may know more soon.
      lost_.insert(rank);
      fail_rank(rank, {128 + SIGKILL, 0, fmt::format("its agent is lost without an exit record: {}", why)}, false, now);
    }
  }
  finish_if_done(now);
}

void Attempt::fail_rank(int rank, RankEnd end, bool cause_is_known, Clock::time_point now) {
  auto& member = ranks_[rank];
  if (member.end) return;
  member.end = end;
  ++ended_;
  const FailedRank failed{rank, host_of(rank), member.hello.pid, std::move(end)};
  if (phase_ == Phase::kEnding) {
    const bool is_our_doing = failed.end.signal == SIGTERM || failed.end.signal == SIGKILL || !cause_is_known;
    if (!is_our_doing && later_failures_.size() < kLaterFailuresLimit) later_failures_.push_back(failed);
    return;
  }
  end_.reason = "rank_failed";
  end_.code = failed.end.code;
  end_.first_failed = failed;
  begin_ending(now);
  if (cause_is_known) {
    announce();
  } else {
    announce_at_ = now + kCauseWait;
  }
}

void Attempt::announce() {
  announce_at_.reset();
  end_.code = end_.first_failed->end.code;
  end_.message = sentence();
  outlet_.say(end_.message);
  record_failure(*end_.first_failed);
}

void Attempt::record_failure(const FailedRank& failed) {
  outlet_.record("rank_failed", failure_json(failed));
}

std::string Attempt::sentence() const {
  const auto& failed = *end_.first_failed;
  const auto others = size_ - 1;
  return fmt::format("rank {}{}{}{}", failed.rank, failed.host.empty() ? "" : " on " + printable(failed.host),
                     how(failed.end),
                     others <= 0   ? std::string()
                     : others == 1 ? std::string("; the other rank is ended")
                                   : fmt::format("; the other {} ranks are ended", others));
}

void Attempt::begin_ending(Clock::time_point now, int step_signal) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kOver) return;
  phase_ = Phase::kEnding;
  ending_since_ = now;
  hang_watch_.off();
  outlet_.broadcast({{"type", "end"}, {"signal", step_signal}});
  if (joined_ == 0 && !step_is_over_) {
    stops_asked_ = 1;
    outlet_.stop_step(false);
  }
}

void Attempt::on_task_end(int rank, std::string_view host, int code, int signal, Clock::time_point now) {
  const RankEnd end{signal != 0 ? 128 + signal : code, signal, {}};
  lost_.erase(rank);
  if (announce_at_ && end_.first_failed->rank == rank && end.code != 0) {
    end_.first_failed->end = end;
    ranks_[rank].end = end;
    return announce();
  }
  const bool is_new = task_ends_.emplace(rank, TaskEnd{std::string(host), end}).second;
  if (is_new && phase_ == Phase::kJoining && !ranks_.contains(rank) && end.code != 0) {
    fail_rank(rank, end, true, now);
    finish_if_done(now);
  }
}

void Attempt::on_cancelled(std::string_view reason) {
  if (cancel_reason_.empty()) cancel_reason_ = reason.substr(0, 256);
}

/// A signal that Slurm sent says less than the reason it gave for it. A rank that failed of itself keeps its blame.
void Attempt::blame_slurm() {
  if (cancel_reason_.empty() || end_.code == 0) return;
  const bool is_slurms_signal =
      end_.first_failed && (end_.first_failed->end.signal == SIGTERM || end_.first_failed->end.code == 128 + SIGTERM);
  if (!is_slurms_signal && !(end_.reason == "signalled" && end_.is_cancelled)) return;
  const auto why = why_cancelled(cancel_reason_);
  end_.message = fmt::format("{}; {}", why, end_.message);
  end_.is_timeout = cancel_reason_ == "TIME LIMIT";
  end_.is_slurms_doing = true;
  end_.cause = end_.is_timeout                              ? Cause::kTimeout
               : cancel_reason_ == "PREEMPTION"             ? Cause::kPreemption
               : cancel_reason_ == "JOB REQUEUE"            ? Cause::kRequeue
               : cancel_reason_.starts_with("NODE FAILURE") ? Cause::kNodeFailure
                                                            : Cause::kNone;
  // Nobody wanted this end: the run has failed. A preempted or requeued one was taken away, and may come again.
  if (cancel_reason_ == "TIME LIMIT" || cancel_reason_.starts_with("NODE FAILURE")) end_.is_cancelled = false;
  outlet_.say(why);
}

void Attempt::end_for(std::string_view reason, int code, std::string message, Clock::time_point now) {
  end_.reason = reason;
  end_.code = code;
  end_.message = std::move(message);
  outlet_.say(end_.message);
  begin_ending(now);
}

void Attempt::on_stopped(int rank, std::chrono::seconds stopped, Clock::time_point now) {
  const auto found = ranks_.find(rank);
  if (phase_ != Phase::kRunning || found == ranks_.end() || found->second.end) return;
  stopped_ = {rank, stopped, now};
  if (stopped >= hang_watch_.stopped_limit()) end_for_stopped(now);
}

void Attempt::end_for_stopped(Clock::time_point now) {
  const FailedRank failed{stopped_.rank,
                          host_of(stopped_.rank),
                          ranks_.at(stopped_.rank).hello.pid,
                          {kHangCode, 0, fmt::format("its process has been stopped for {} s", stopped_.time.count())}};
  end_.first_failed = failed;
  record_failure(failed);
  end_for("hang", kHangCode, sentence(), now);
}

void Attempt::on_node_failure(std::string_view nodes, Clock::time_point now) {
  const auto lost = expand_hostlist(nodes).value_or(std::vector<std::string>());
  end_.lost_nodes.insert(end_.lost_nodes.end(), lost.begin(), lost.end());
  if (phase_ != Phase::kRunning && phase_ != Phase::kJoining) return;
  end_for("node_failure", 128 + SIGKILL, fmt::format("Slurm has lost {}; its ranks are ended", printable(nodes)), now);
}

void Attempt::on_limit_ahead(std::chrono::milliseconds time_left, Clock::time_point now) {
  if (phase_ != Phase::kRunning || limit_at_) return;
  limit_at_ = now + time_left;
  hang_watch_.off();
}

/// What the end means for another start. Slurm's own reason was looked at before.
Cause Attempt::cause() const {
  if (end_.code == 0 || is_given_up_) return Cause::kNone;
  if (end_.cause != Cause::kNone) return end_.cause;
  if (!end_.lost_nodes.empty())
    return Cause::kNodeFailure;  // a TERM that came behind it is Slurm's, to queue the job again
  if (end_.is_cancelled) return Cause::kNone;
  if (end_.reason == "hang") return Cause::kHang;
  if (end_.reason == "time_limit") return Cause::kTimeout;
  if (end_.reason == "rank_failed") {
    // A program that was told to save, and leaves with a code of its own: that is how it ends before its time is up.
    if (limit_at_) return Cause::kTimeout;
    if (is_preemption_near_) return Cause::kPreemption;
    if (is_out_of_memory_ && end_.code == 128 + SIGKILL) return Cause::kOom;
  }
  return Cause::kFailure;
}

/// The nodes that did not keep their ranks: where agents were lost without a word, or a process hangs.
void Attempt::find_suspects() {
  std::map<std::string, int> left_of;  // ranks of the host that said how they ended
  std::set<std::string> suspects;
  for (const auto& [rank, member] : ranks_) left_of[member.hello.host] += lost_.contains(rank) ? 0 : 1;
  for (const int rank : lost_) suspects.insert(host_of(rank));
  for (const auto& host : suspects) end_.is_whole_node_silent = end_.is_whole_node_silent || left_of[host] == 0;
  if (end_.reason == "hang" && end_.first_failed) suspects.insert(end_.first_failed->host);
  suspects.erase(std::string());
  end_.suspects.assign(suspects.begin(), suspects.end());
}

void Attempt::on_step_end(int code, std::string_view words, Clock::time_point now) {
  step_is_over_ = true;
  step_over_since_ = now;
  step_code_ = code;
  step_words_ = words;
  finish_if_done(now);
}

void Attempt::on_own_signal(int signal, Clock::time_point now) {
  const bool is_checkpoint = signal == SIGUSR1;
  const bool passes = is_checkpoint && options_.forward_usr1 && phase_ == Phase::kRunning;
  outlet_.record("signal", {{"signal", signal_name(signal)},
                            {"where", "lead"},
                            {"word", passes ? "checkpoint" : (is_checkpoint ? "none" : "abort")}});
  if (passes && !std::exchange(usr1_is_passed_, true)) {
    outlet_.broadcast({{"type", "word"}, {"signal", signal}, {"word", "checkpoint"}});
  }
  if (is_checkpoint || phase_ == Phase::kOver) return;
  if (phase_ == Phase::kEnding) {
    // Asked twice: the job is cancelled whatever it was ending for, but what failed first keeps its name and code.
    end_.is_cancelled = true;
    end_.is_slurms_doing = end_.is_slurms_doing || !end_.lost_nodes.empty();
    return;
  }
  end_.reason = "signalled";
  end_.code = 128 + signal;
  end_.is_cancelled = true;
  end_.message = fmt::format("ended by {}", signal_name(signal));
  outlet_.say(end_.message);
  begin_ending(now, signal);
  finish_if_done(now);
}

void Attempt::on_rank_signal(int rank, int signal, Clock::time_point now) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kOver) return;
  // Grace time reaches steps only: a TERM that comes to ranks alone is the preemption that `signal_before` waits for.
  const bool may_checkpoint = signal == SIGUSR1 || signal == SIGTERM;
  const bool passes = may_checkpoint && options_.forward_usr1;
  const std::string word = passes ? "checkpoint" : (signal == SIGUSR1 ? "none" : "abort");
  if (signals_seen_.insert(signal).second) {
    outlet_.record("signal", {{"signal", signal_name(signal)},
                              {"where", fmt::format("rank {} on {}", rank, host_of(rank))},
                              {"word", word}});
  }
  if (word == "none") return outlet_.send(rank, {{"type", "word"}, {"signal", signal}, {"word", word}});
  if (passes) {
    // All checkpoint together or none: a collective in the middle of it would hang otherwise. To this one again,
    // since it waits for a word about this very signal.
    outlet_.send(rank, {{"type", "word"}, {"signal", signal}, {"word", word}});
    is_preemption_near_ = is_preemption_near_ || signal == SIGTERM;
    hang_watch_.off();
    if (!std::exchange(usr1_is_passed_, true)) {
      outlet_.broadcast({{"type", "word"}, {"signal", signal}, {"word", "checkpoint"}});
    }
    return;
  }
  end_.reason = "signalled";
  end_.code = 128 + signal;
  end_.is_cancelled = true;
  end_.message = fmt::format("ended by {}, which reached rank {} on {}", signal_name(signal), rank, host_of(rank));
  outlet_.say(end_.message);
  begin_ending(now, signal);
}

void Attempt::give_up(int code, std::string_view message, Clock::time_point now) {
  if (phase_ == Phase::kOver) return;
  is_given_up_ = true;
  end_.reason = "signalled";
  end_.code = code;
  end_.message = message;
  end_.first_failed.reset();
  announce_at_.reset();
  outlet_.say(message);
  begin_ending(now);
}

void Attempt::on_warning(int rank, std::string_view message) {
  outlet_.say(fmt::format("rank {} on {}: {}", rank, host_of(rank), printable(message)));
  outlet_.record("warning", {{"message", message}, {"rank", rank}, {"host", host_of(rank)}});
}

void Attempt::on_table(int rank, std::int64_t from) {
  if (phase_ != Phase::kRunning) return;
  if (table_.empty()) {
    std::vector<Endpoint> table;
    for (const auto& [number, member] : ranks_) {
      table.push_back({member.hello.addr, static_cast<std::uint16_t>(member.hello.port)});
    }
    table_ = table_pages(table);
  }
  const auto page = static_cast<std::size_t>(from) / kTablePageRanks;
  if (from < 0 || from % kTablePageRanks != 0 || page >= table_.size()) return;
  outlet_.send_text(rank, table_[page]);
}

void Attempt::on_progress(int rank, const Json& body, Clock::time_point now) {
  if (rank != 0 || !body.is_object()) return;
  const auto final = body.find("final");
  if (final != body.end() && final->is_boolean() && final->get<bool>()) {
    Json result = body;
    result.erase("final");
    result.erase("op");
    outlet_.record("result", result);
    held_progress_.reset();
    hang_watch_.off();
    return;
  }
  const auto told = count_of(body, "step");
  const auto step = told >= 0 ? told : count_of(body, "epoch");
  if (step >= 0) step_ = std::max(step_.value_or(step), step);
  hang_watch_.on_progress(now, step < 0 ? std::string() : fmt::format("{} {}", told >= 0 ? "step" : "epoch", step));
  const bool has_saved = body.contains("checkpoint");
  if (has_saved && limit_at_ && phase_ == Phase::kRunning) {
    return end_for("time_limit", 128 + SIGTERM, "the time limit is near, and a checkpoint is saved", now);
  }
  if (has_saved && !body.contains("step")) return;  // no news of how far it is
  held_progress_ = body;
  held_progress_->erase("op");
  flush_progress(now);
}

void Attempt::flush_progress(Clock::time_point now) {
  if (!held_progress_ || now < last_progress_ + kProgressEvery) return;
  last_progress_ = now;
  outlet_.record("progress", *held_progress_);
  held_progress_.reset();
}

void Attempt::name_missing(Clock::time_point now) {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (!ranks_.contains(rank)) missing.push_back(rank);
  }
  struct Node {
    std::string host;
    int here = 0;
    int expected = 0;
  };
  std::map<int, Node> nodes;
  int nnodes = 0;
  for (const auto& [rank, member] : ranks_) {
    const auto& world = member.hello.world;
    auto& node = nodes[world.node_rank];
    node.host = member.hello.host;
    node.expected = world.local_size;
    ++node.here;
    nnodes = world.nnodes;
  }
  const auto job_nodes = options_.job_nodes.empty()
                             ? std::vector<std::string>()
                             : expand_hostlist(options_.job_nodes).value_or(std::vector<std::string>());
  std::vector<std::string> words;
  for (const auto& [index, node] : nodes) {
    if (node.here < node.expected) {
      words.push_back(fmt::format("{} ({} of its {})", node.host, node.expected - node.here, node.expected));
    }
  }
  // Slurm numbers a step's nodes in the order of the job's list, when the step has them all.
  std::vector<std::string> silent;
  for (std::size_t index = 0; index < job_nodes.size(); ++index) {
    const bool knows_layout = nnodes == 0 || job_nodes.size() == static_cast<std::size_t>(nnodes);
    if (knows_layout && !nodes.contains(static_cast<int>(index))) silent.push_back(job_nodes[index]);
  }
  if (!silent.empty()) words.push_back(fmt::format("{} (all)", compress_hostlist(silent)));
  const double waited = seconds_between(began_, now);
  const std::string where = words.empty() ? "" : fmt::format("; missing on {}", join(words, ", "));
  end_.message = size_ == 0
                     ? fmt::format("no rank said hello within {} s{}", waited, where)
                     : fmt::format("{} of {} ranks did not say hello within {} s: {} {}{}", missing.size(), size_,
                                   waited, missing.size() == 1 ? "rank" : "ranks", ranges(missing), where);
  outlet_.record("missing", {{"ranks", missing}, {"seconds", waited}});
}

void Attempt::tick(Clock::time_point now) {
  if (phase_ == Phase::kOver) return;
  flush_progress(now);
  if (announce_at_ && *announce_at_ <= now) announce();
  if (phase_ == Phase::kJoining && now >= began_ + options_.join_timeout) {
    name_missing(now);
    end_.reason = "join_timeout";
    end_.code = kJoinTimeoutCode;
    outlet_.say(end_.message);
    begin_ending(now);
  }
  if (phase_ == Phase::kRunning) {
    if (auto sentence = hang_watch_.due(now)) {
      // A process that is stopped is why; it is told of every second.
      const bool is_stopped = stopped_.rank >= 0 && now < stopped_.heard + kStoppedIsFresh;
      is_stopped ? end_for_stopped(now) : end_for("hang", kHangCode, std::move(*sentence), now);
    } else if (limit_at_ && now >= *limit_at_) {
      end_for("time_limit", 128 + SIGTERM, "the time limit is near", now);
    }
  }
  if (phase_ == Phase::kEnding && !step_is_over_) {
    if (stops_asked_ < 1 && now >= ending_since_ + kMercy) {
      stops_asked_ = 1;
      outlet_.stop_step(false);
    }
    if (stops_asked_ < 2 && now >= ending_since_ + kPatience) {
      stops_asked_ = 2;
      outlet_.stop_step(true);
    }
  }
  finish_if_done(now);
}

void Attempt::finish_if_done(Clock::time_point now) {
  if (phase_ == Phase::kOver) return;
  const bool all_ended = size_ > 0 && ended_ >= size_;
  if (all_ended && !all_ended_since_) all_ended_since_ = now;
  const bool lag_is_over = step_over_since_ && now >= *step_over_since_ + kConnectionsLag;
  if (phase_ == Phase::kEnding) {
    const bool none_connected = std::none_of(
        ranks_.begin(), ranks_.end(), [](const auto& entry) { return entry.second.is_connected && !entry.second.end; });
    if (step_is_over_ && !announce_at_ && (none_connected || lag_is_over)) finish(now);
    return;
  }
  if (phase_ == Phase::kRunning && all_ended) {
    if (step_is_over_) {
      if (step_code_ != 0) {
        outlet_.record("warning",
                       {{"message", fmt::format("every rank ended with 0, but the step's launcher with {}{}",
                                                step_code_, step_words_.empty() ? "" : ": " + step_words_)}});
      }
      end_.reason = "ok";
      end_.code = 0;
      finish(now);
    } else if (stops_asked_ < 2 && now >= *all_ended_since_ + kStepLag) {
      outlet_.record("warning", {{"message", fmt::format("every rank ended with 0, but the step goes on {} s later; it "
                                                         "is stopped",
                                                         kStepLag.count())}});
      outlet_.stop_step(stops_asked_++ > 0);
    }
    return;
  }
  if (!step_is_over_) return;
  // The step is gone while ranks are still awaited.
  if (joined_ == 0 && ranks_.empty()) {
    end_.reason = "launch_failed";
    end_.code = kLaunchFailedCode;
    const auto words = trim(step_words_);
    end_.message =
        step_code_ == 0 && words.empty()
            ? "the step ended before any rank said hello; does its command line end in `dlrun-agent rank -- PROGRAM`?"
            : fmt::format("the step could not be launched (exit code {}){}", step_code_,
                          words.empty() ? "" : fmt::format(": {}", words));
    outlet_.say(end_.message);
    finish(now);
  } else if (lag_is_over) {
    for (int rank = 0; rank < size_; ++rank) {
      const auto found = ranks_.find(rank);
      if (found != ranks_.end() && found->second.end) continue;
      fail_rank(rank,
                {kLaunchFailedCode, 0,
                 found == ranks_.end() ? "never said hello, and the step is over"
                                       : "has no exit record, and the step is over"},
                true, now);
    }
    finish(now);
  }
}

void Attempt::finish(Clock::time_point now) {
  phase_ = Phase::kOver;
  if (held_progress_) outlet_.record("progress", *held_progress_);
  for (const auto& failed : later_failures_) record_failure(failed);
  blame_slurm();
  end_.cause = cause();
  end_.is_timeout = end_.is_timeout || end_.cause == Cause::kTimeout;
  end_.step = step_;
  end_.had_grace = is_preemption_near_;
  find_suspects();
  if (end_.reason == "ok") {
    end_.message = size_ == 1 ? "the rank ended with 0" : fmt::format("all {} ranks ended with 0", size_);
  }
  Json fields{{"code", end_.code}, {"reason", end_.reason}};
  if (end_.cause != Cause::kNone) fields["cause"] = word(end_.cause);
  if (end_.first_failed) {
    auto first = failure_json(*end_.first_failed);
    first.erase("pid");
    first.erase("error");
    fields["first_failed"] = first;
  }
  fields["seconds"] = seconds_between(began_, now);
  outlet_.record("attempt_end", fields);
}

std::optional<Attempt::Clock::time_point> Attempt::next_deadline() const {
  std::optional<Clock::time_point> next;
  const auto at = [&](Clock::time_point when) {
    if (!next || when < *next) next = when;
  };
  if (announce_at_) at(*announce_at_);
  if (const auto due = hang_watch_.next_deadline(); due && phase_ == Phase::kRunning) at(*due);
  if (limit_at_ && phase_ == Phase::kRunning) at(*limit_at_);
  if (phase_ == Phase::kJoining) at(began_ + options_.join_timeout);
  if (phase_ == Phase::kEnding && !step_is_over_ && stops_asked_ < 2) {
    at(ending_since_ + (stops_asked_ < 1 ? kMercy : kPatience));
  }
  if (step_over_since_) at(*step_over_since_ + kConnectionsLag);
  if (held_progress_) at(last_progress_ + kProgressEvery);
  return next;
}

}  // namespace dlrun::agent
