// Signals that reach lead or a rank while an attempt runs. A signal ends the attempt or asks for a
// checkpoint.

#include <signal.h>

#include <utility>

#include "common/subprocess.h"
#include "runtime/agent/attempt.h"

namespace dlrun::agent {

void Attempt::on_lead_signal(int signal, Clock::time_point now) {
  if (is_in<Over>()) return;
  const bool is_usr1 = signal == SIGUSR1;
  // A service saves no checkpoint, and the signal would end a program that does not handle it.
  const bool is_passed_on =
      is_usr1 && options_.forwards_usr1 && !options_.is_service && is_in<Running>();
  outlet_.record(events::Signal{.signal = signal_name(signal),
                                .where = "lead",
                                .decision = is_passed_on ? SignalDecision::kCheckpoint
                                            : is_usr1    ? SignalDecision::kNone
                                                         : SignalDecision::kAbort});
  if (is_passed_on) ask_for_checkpoint(signal);
  if (is_usr1) return;
  if (is_ending()) {
    // A signal while the attempt ends cancels the job. The rank and the code of the first failure
    // stay.
    end_.is_cancelled = true;
    end_.is_slurms_doing = end_.is_slurms_doing || !end_.bad_nodes.empty();
    auto* const ending = in<Ending>();
    if (ending == nullptr) return begin_ending(now, signal);
    if (!ending->signalled_at) ending->signalled_at = now;
    return;
  }
  end_for_signal(signal, fmt::format("ended by {}", signal_name(signal)), now);
  finish_if_done(now);
}

void Attempt::on_rank_signal(int rank, int signal, Clock::time_point now) {
  if (!goes_on()) return;
  // When the grace time of a preemption begins, Slurm sends TERM only to the steps. A TERM that
  // reaches ranks but not lead therefore announces a preemption. The programs then get USR1, as
  // before the time limit (`checkpoint.signal_before`).
  const bool may_checkpoint = signal == SIGUSR1 || signal == SIGTERM;
  const bool asks_for_checkpoint = may_checkpoint && options_.forwards_usr1;
  // A service goes on while the main components save their checkpoints.
  const auto answer = asks_for_checkpoint && options_.is_service ? SignalDecision::kNone
                      : asks_for_checkpoint                      ? SignalDecision::kCheckpoint
                      : signal == SIGUSR1                        ? SignalDecision::kNone
                                                                 : SignalDecision::kAbort;
  const auto host = members_.host_of(rank);
  if (signals_.recorded.insert(signal).second) {
    outlet_.record(events::Signal{.signal = signal_name(signal),
                                  .where = fmt::format("rank {} on {}", rank, host),
                                  .decision = answer});
  }
  if (answer == SignalDecision::kNone) {
    signs_.is_preemption_near = signs_.is_preemption_near || signal == SIGTERM;
    return outlet_.send(rank, to_rank::SignalAnswer{signal, answer});
  }
  if (!asks_for_checkpoint) {
    return end_for_signal(
        signal,
        fmt::format("ended by {}, which reached rank {} on {}", signal_name(signal), rank, host),
        now);
  }
  // Either all ranks checkpoint or none. Otherwise a collective in the middle of a checkpoint would
  // hang. The rank that got the signal waits for an answer with the number of this signal. The
  // broadcast is sent only once, for the first such signal, so the rank gets an answer of its own.
  outlet_.send(rank, to_rank::SignalAnswer{signal, answer});
  signs_.is_preemption_near = signs_.is_preemption_near || signal == SIGTERM;
  ask_for_checkpoint(signal);
}

void Attempt::ask_for_checkpoint(int signal) {
  if (auto* const running = in<Running>()) running->hang.stop_watching();
  if (!std::exchange(signals_.is_checkpoint_asked, true)) {
    outlet_.broadcast(to_rank::SignalAnswer{signal, SignalDecision::kCheckpoint});
  }
}

void Attempt::end_for_signal(int signal, std::string message, Clock::time_point now) {
  end_.reason = EndReason::kSignalled;
  end_.code = 128 + signal;
  end_.is_cancelled = true;
  end_.message = std::move(message);
  outlet_.say(end_.message);
  begin_ending(now, signal);
}

}  // namespace dlrun::agent
