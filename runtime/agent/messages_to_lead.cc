// The messages of ranks to lead: each handle() passes one type on to Attempt, the store or the
// statistics.
#include <algorithm>
#include <utility>
#include <variant>

#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/attempt_runner.h"
#include "runtime/agent/node_check.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDefaultWait{30'000};          ///< wait of a Get without wait_ms
constexpr milliseconds kWaitLimit{24 * 3600 * 1000};  ///< longest wait of a Get
constexpr std::size_t kReportedNodesLimitBytes = 16U << 10U;

/// Returns the text of to_rank::Reply::code for an error of the store.
std::string reply_code_of(Errc code) {
  switch (code) {
    case Errc::kTimeout:
    case Errc::kNotFound:  // the request did not wait
      return "timeout";
    case Errc::kInvalid:
      return "invalid";
    default:
      return "refused";
  }
}

}  // namespace

void AttemptRunner::on_node_failure(std::string_view nodes) {
  if (reported_nodes_.size() < kReportedNodesLimitBytes)
    reported_nodes_ += fmt::format("{}{}", reported_nodes_.empty() ? "" : ",", nodes);
}

bool AttemptRunner::on_peer(PeerId peer, const RankIdentity& claimed) {
  const bool is_of_this_step = !step_id_ || *step_id_ == claimed.step;
  if (claimed.job != identity_.job || claimed.component != component_name() ||
      claimed.attempt != run_.attempt || !is_of_this_step || !attempt_->may_join(claimed.rank) ||
      peer_of_rank_.contains(claimed.rank)) {
    return false;
  }
  step_id_ = claimed.step;
  rank_of_peer_[peer] = claimed.rank;
  peer_of_rank_[claimed.rank] = peer;
  return true;
}

void AttemptRunner::on_lost(PeerId peer, std::string_view why) {
  const auto found = rank_of_peer_.find(peer);
  if (found == rank_of_peer_.end()) return;
  const int rank = found->second;
  log_debug("a rank's connection is closed", {{"rank", rank}, {"why", why}});
  rank_of_peer_.erase(found);
  peer_of_rank_.erase(rank);
  store_.drop_requests_of(rank);
  note_lead_suspension(Clock::now());
  attempt_->on_lost(rank, why, Clock::now());
}

void AttemptRunner::on_message(PeerId peer, std::string_view payload) {
  const auto found = rank_of_peer_.find(peer);
  if (found == rank_of_peer_.end()) return;
  const int rank = found->second;
  const auto now = Clock::now();
  note_lead_suspension(now);
  attempt_->on_heard(rank, now);
  auto message = parse_to_lead(payload);
  if (!message) {
    say(fmt::format("rank {}: {}", rank, message.error().message));
    return connections_->close(peer);
  }
  if (*message) std::visit([&](auto& one) { handle({rank, peer, now}, one); }, **message);
}

void AttemptRunner::handle(const Sender& from, to_lead::Hello& hello) {
  // A rank on lead's node may have connected over the loopback interface. Other nodes, and other
  // components, need an address that they can reach.
  if (is_loopback(hello.addr) && (hello.world.nnodes > 1 || component_))
    hello.addr = addresses_.front();
  if (hello.time) {
    const auto here = std::chrono::duration_cast<milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    if (const auto problem = clock_problem(*hello.time, here))
      hello.complaint += (hello.complaint.empty() ? "" : "; ") + *problem;
  }
  log_debug("a rank has joined", {{"rank", from.rank}, {"host", hello.host}, {"addr", hello.addr}});
  samples_.add(hello.world, hello.host);
  host_of_rank_[from.rank] = hello.host;
  attempt_->on_hello(from.rank, hello, Clock::now());
}

void AttemptRunner::handle(const Sender& from, const to_lead::Beat& beat) {
  ++heard_beat_count_;
  samples_.add_beat(from.rank, beat, from.now);
  if (const auto host = host_of_rank_.find(from.rank); host != host_of_rank_.end())
    idle_gpus_.add_beat(from.rank, host->second, beat, from.now);
  if (beat.has_printed) attempt_->on_output(from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::Suspended& suspended) {
  attempt_->on_program_suspended(from.rank, suspended.time, from.now);
}

void AttemptRunner::handle(const Sender& from, to_lead::Autopsy& autopsy) {
  attempt_->on_autopsy(from.rank, std::move(autopsy.frames), from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::Signal& signal) {
  attempt_->on_rank_signal(from.rank, signal.signal, from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::Warning& warning) {
  attempt_->on_warning(from.rank, warning.message);
}

void AttemptRunner::handle(const Sender& from, const to_lead::DeviceOpenedByCheck&) {
  attempt_->on_check_opened_device(from.rank);
}

void AttemptRunner::handle(const Sender& from, const to_lead::Checked&) {
  attempt_->on_checked(from.rank, from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::CheckFailed& failed) {
  attempt_->on_check_failed(from.rank, failed.words, failed.is_own, from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::Staged& staged) {
  attempt_->on_staged(from.rank, staged.file_count, staged.bytes, from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::Collected& collected) {
  attempt_->on_collected(from.rank, collected.file_count, collected.bytes, from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::Put& put) {
  send_replies(store_.put(from.rank, put.id, put.key, put.value));
}

void AttemptRunner::handle(const Sender& from, const to_lead::Get& get) {
  const milliseconds wait(
      std::clamp<std::int64_t>(get.wait_ms.value_or(kDefaultWait.count()), 0, kWaitLimit.count()));
  send_replies(store_.get(from.rank, get.id, get.key, wait, from.now));
}

void AttemptRunner::handle(const Sender& from, const to_lead::Progress& progress) {
  attempt_->on_progress(from.rank, progress.body, from.now);
  if (stop_early_ && from.rank == 0) stop_early_->on_progress(progress.body);
  if (notifier_ != nullptr && from.rank == 0 && !is_superseded_)
    notifier_->on_report(progress.body, std::chrono::system_clock::now(), from.now);
  if (tensorboard_ && from.rank == 0 && !is_superseded_)
    tensorboard_->on_report(progress.body, std::chrono::system_clock::now(), from.now);
}

void AttemptRunner::handle(const Sender& from, const to_lead::TableRequest& request) {
  attempt_->on_table_request(from.rank, request.from);
}

void AttemptRunner::handle(const Sender& from, to_lead::Exit& exit) {
  if (step_) step_->reap();  // first: if srun was killed, that explains the rank's end
  attempt_->on_exit(from.rank, std::move(exit.end), from.now);
}

void AttemptRunner::send_replies(const std::vector<StoreTable::Answer>& answers) {
  for (const auto& [rank, id, value] : answers) {
    to_rank::Reply reply{.id = id, .ok = value.has_value()};
    if (!value) {
      reply.error = value.error().message;
      reply.code = reply_code_of(value.error().code);
    } else if (!value->empty()) {
      reply.value = *value;
    }
    send(rank, reply);
  }
}

}  // namespace dlrun::agent
