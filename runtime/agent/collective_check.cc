#include "runtime/agent/collective_check.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/json_read.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/program_start.h"

namespace dlrun::agent {
namespace {

/// Returns the path of the trainer, which is in the same folder as this program.
std::string trainer_path() {
  std::error_code ignored;
  return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "dlrun-trainer")
      .string();
}

/// Returns true if the check also compares the speed of collectives with the figures of the site.
/// The figures do not apply to rccl: the trainer's data are then in host memory, so the measured
/// speed would be that of the copies to the GPU and back.
bool measures_speed(const NodeChecks& checks) {
  return checks.fabric && checks.collective != "rccl";
}

}  // namespace

std::chrono::seconds CollectiveCheck::time_after_opening_device(const NodeChecks& checks) {
  // Numbers of waits. To connect, a rank waits for the address of rank 0, and then for the
  // connections to the other ranks.
  constexpr int kConnecting = 2, kAllReduce = 1;
  int waits = kConnecting + kAllReduce;
  // A measurement takes a few seconds. Any figure is at least 1 GB/s, so a measurement that takes
  // longer than kEachWaitLimit shows too slow a network.
  if (measures_speed(checks) && checks.figures.node_all_reduce) waits += kConnecting + kAllReduce;
  if (measures_speed(checks) && checks.figures.all_reduce) waits += kAllReduce;
  return waits * kEachWaitLimit + kSpare;
}

Result<std::unique_ptr<CollectiveCheck>> CollectiveCheck::start(
    EventLoop& loop, const NodeChecks& checks, Env env,
    std::function<void(const MessageToLead&)> send_to_lead) {
  const std::string& backend = checks.collective;
  std::unique_ptr<CollectiveCheck> check(new CollectiveCheck(checks, std::move(send_to_lead)));
  auto store = StoreRelay::create(
      loop, [self = check.get()](const MessageToLead& message) { self->on_message(message); });
  if (!store) return tl::unexpected<Error>(std::move(store.error()));
  check->store_ = std::move(*store);
  Program program{.argv = {trainer_path(), "preflight", "--backend", backend, "--timeout",
                           fmt::format("{}", kEachWaitLimit.count())},
                  .env = std::move(env),
                  .inherited_fd = check->store_->program_socket(),
                  .dies_with_us = true};
  if (measures_speed(checks)) {
    const auto add = [&](const char* option, const std::optional<std::int64_t>& figure) {
      if (figure) program.argv.insert(program.argv.end(), {option, fmt::format("{}", *figure)});
    };
    add("--all-reduce", checks.figures.all_reduce);
    add("--node-all-reduce", checks.figures.node_all_reduce);
  }
  program.env.set("DLRUN_STORE", fmt::format("fd:{}", program.inherited_fd));
  const auto pid = start_program(program);
  check->store_->release_program_socket();
  if (!pid) return tl::unexpected<Error>(pid.error());
  check->pid_ = *pid;
  return check;
}

void CollectiveCheck::on_message(const MessageToLead& message) {
  const auto* progress = std::get_if<to_lead::Progress>(&message);
  const Json body = progress == nullptr ? Json() : progress->body;
  const auto word = json_read::text(body, "check");
  if (word == "device_open") {
    if (!device_opened_at_) device_opened_at_ = Clock::now();
    send_to_lead_(to_lead::DeviceOpenedByCheck{});
  } else if (word == "failed") {
    const auto is_own = body.find("is_own");
    if (!failure_)
      failure_ = failure(backend_, json_read::text(body, "words"),
                         is_own == body.end() || *is_own != false);
  } else if (word.empty()) {
    send_to_lead_(message);
  }
}

void CollectiveCheck::give_up(std::string words) {
  if (!failure_) failure_ = failure(backend_, words, true);
  ::kill(pid_, SIGKILL);
}

void CollectiveCheck::tick(Clock::time_point now) {
  const auto limit = device_opened_at_ ? time_after_opening_device_ : time_to_open_device();
  if (now >= device_opened_at_.value_or(began_) + limit) {
    return give_up(fmt::format("its check does not {} within {} s",
                               device_opened_at_ ? "end" : "open its device", limit.count()));
  }
  if (!is_suspended(pid_)) return suspended_since_.reset();
  if (!suspended_since_) suspended_since_ = now;
  if (now >= *suspended_since_ + kSuspendedLimit) give_up("its check is suspended (SIGSTOP)");
}

std::optional<to_lead::CheckFailed> CollectiveCheck::result(int status) const {
  if (failure_) return failure_;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  return failure(backend_,
                 WIFSIGNALED(status)
                     ? fmt::format("its check was killed by {}", signal_name(WTERMSIG(status)))
                     : fmt::format("its check ended with code {}", WEXITSTATUS(status)),
                 true);
}

to_lead::CheckFailed CollectiveCheck::failure(const std::string& backend, std::string_view words,
                                              bool is_own) {
  const std::string name = backend + ": ";
  // An error of the backend itself has the name already.
  return {fmt::format("{}{}", words.starts_with(name) ? "" : name, words), is_own};
}

}  // namespace dlrun::agent
