// dlrun-trainer: one rank of a data-parallel training job, or a whole job of one rank.

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/log.h"
#include "common/result.h"
#include "common/text.h"
#include "runtime/bootstrap/world.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/checkpoint/checkpoint.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/loop/trainer.h"
#include "runtime/trainer/loop/training_reporter.h"
#include "runtime/trainer/measure/collective_times.h"
#include "runtime/trainer/measure/preflight.h"
#include "runtime/trainer/parallel/agreement.h"
#include "runtime/trainer/parallel/distributed_job.h"
#include "runtime/trainer/trainer_options.h"

namespace dlrun::trainer {
namespace {

std::atomic<bool> save_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

constexpr std::size_t kMaxReportedMessageBytes = 1024;

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = [](int) { save_requested.store(true); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t unblocked;
  sigemptyset(&unblocked);
  sigaddset(&unblocked, SIGUSR1);
  // A parent that waits for signals may have left SIGUSR1 blocked.
  sigprocmask(SIG_UNBLOCK, &unblocked, nullptr);
  // Make a write beyond a size limit, or to a closed pipe, fail instead of ending the process.
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
  sigaction(SIGPIPE, &action, nullptr);
}

/// Returns the exit code that runtime/ENVIRONMENT.md defines.
int exit_code(Errc code) {
  switch (code) {
    case Errc::kUsage:
      return 64;
    case Errc::kInvalid:
      return 65;
    case Errc::kNotFound:
      return 66;
    case Errc::kPeer:
    case Errc::kTimeout:
      return 68;
    case Errc::kUnavailable:
      return 69;
    case Errc::kIo:
      return 74;
    case Errc::kRefused:
      return 78;
    case Errc::kShape:
    case Errc::kInternal:
    case Errc::kInterrupted:
      break;
  }
  return 70;
}

Result<std::unique_ptr<Kernels<float>>> make_kernels(const Options& options, const World& world) {
  if (options.device == "cuda")
    return make_cuda_kernels(world.local_rank, {.precision = options.precision,
                                                .captures_steps = options.uses_cuda_graphs});
  return make_cpu_kernels<float>(options.threads);
}

/// Trains a model as one of the job's ranks.
Result<> train_model(const Options& options, const Env& env, DistributedJob& job) {
  Communicator& communicator = job.communicator();
  const World& world = job.world();
  // Call after each operation that can fail on a single rank: all ranks then return the same
  // result.
  const auto agreed = [&](const auto& mine) {
    return agree(communicator, job.host(),
                 mine ? Result<>() : Result<>(tl::unexpected(mine.error())));
  };
  DataOptions data_options = options.data;
  data_options.rank = world.rank;
  data_options.ranks = world.size;
  const auto start = std::chrono::steady_clock::now();
  auto data = load_data(data_options);
  log_info("reading the data has ended", {{"source", data ? data->source : data.error().message},
                                          {"seconds", std::chrono::steady_clock::now() - start}});
  DLRUN_TRY(agreed(data));
  auto kernels = make_kernels(options, world);
  DLRUN_TRY(agreed(kernels));
  communicator.set_compute_stream((*kernels)->stream());
  TrainingReporter::Options reporter_options;
  reporter_options.is_main = world.rank == 0;
  // mpirun connects a rank's stdout to a pseudo-terminal even if the output goes to a file, but
  // never its stderr.
  reporter_options.is_terminal = isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
  reporter_options.metrics = options.metrics;
  reporter_options.store = job.store();
  reporter_options.precision = name_of((*kernels)->precision());
  reporter_options.attempt =
      static_cast<int>(parse_int(env.get_or("DLRUN_ATTEMPT", "0")).value_or(0));
  reporter_options.epochs =
      epochs_per_rank(options.train.sharding, options.train.epochs, world.size);
  auto reporter = TrainingReporter::open(reporter_options);
  DLRUN_TRY(agreed(reporter));

  Trainer trainer(options.train, *data,
                  Session{communicator, **kernels, *reporter, job.host(),
                          [&env] { return check_attempt_owns_run(env); }, &save_requested});
  DLRUN_TRY_ASSIGN(auto outcome, trainer.run());
  return communicator.barrier();
}

/// Opens the log of this rank and logs the start. On failure, prints the reason; the rank continues
/// without a log. Does nothing if the rank's number is unknown.
void open_trainer_log(const Env& env) {
  const auto world = read_world(env, ProcessKind::kProgram);
  if (!world) return;  // the caller reads the world again and reports this error
  const auto setting = prepare_job_log(
      env, env.get_or("DLRUN_RUN", ""),
      rank_debug_log_name(env.get_or("DLRUN_COMPONENT", ""), "trainer", world->rank));
  const auto opened = setting ? open_log(fmt::format("trainer {}", world->rank), *setting, env)
                              : Result<>(tl::unexpected(setting.error()));
  if (!opened)
    fmt::print(stderr, "dlrun-trainer: rank {}: {}; no log is written\n", world->rank,
               opened.error().message);
  log_info("the trainer starts", {{"rank", world->rank},
                                  {"world_size", world->size},
                                  {"from", to_string(world->source)},
                                  {"host", host_name()}});
}

/// Logs and prints an error. Prints `prefix` before the message, unless all ranks have agreed on
/// the error: the message then already contains the rank. Returns the exit code.
int report_error(const Error& error, const std::string& prefix) {
  log_info("the trainer fails", {{"error", error.message}});
  std::fflush(stdout);
  fmt::print(stderr, "dlrun-trainer: {}{}\n", error.agreed_rank >= 0 ? "" : prefix, error.message);
  return exit_code(error.code);
}

/// Reports to this rank's agent which rank has failed, so that the run's record names that rank and
/// not the first rank that reports. Reports rank -1 if the failed rank is unknown. Ignores errors:
/// the agent sees the exit code in any case.
void report_failed_rank(DistributedJob& job, const Error& error) {
  if (job.store() == nullptr) return;
  const int failed_rank = error.agreed_rank >= 0      ? error.agreed_rank
                          : error.code == Errc::kPeer ? -1
                                                      : job.world().rank;
  const std::string message(message_without_rank(error).substr(0, kMaxReportedMessageBytes));
  const nlohmann::json report{{"failed", message}, {"of", failed_rank}};
  std::ignore = job.store()->report_progress(
      report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

int main_of_digits(const std::vector<std::string>& args) {
  const auto options = parse_digits_options(args);
  if (!options) return report_error(options.error(), "digits: ");
  if (options->wants_help) {
    fmt::print("{}", digits_help_text());
    return 0;
  }
  if (auto written = write_digits(options->out, options->train_samples, options->test_samples,
                                  options->seed, options->partitions);
      !written) {
    return report_error(written.error(), "digits: ");
  }
  fmt::print("{} training and {} test images in {}\n", options->train_samples,
             options->test_samples, options->out.string());
  return 0;
}

int main_of_collectives(const std::vector<std::string>& args) {
  const auto options = parse_collectives_options(args);
  if (!options) return report_error(options.error(), "collectives: ");
  if (options->wants_help) {
    fmt::print("{}", collectives_help_text());
    return 0;
  }
  if (auto done = run_collectives(*options, Env::of_process()); !done)
    return report_error(done.error(), "collectives: ");
  return 0;
}

/// Returns "rank 3 on n1: " if there are several ranks, else an empty string.
std::string rank_prefix(const Env& env) {
  const auto world = read_world(env, ProcessKind::kProgram);
  return !world || world->size == 1 ? "" : fmt::format("rank {} on {}: ", world->rank, host_name());
}

int main_of_preflight(const std::vector<std::string>& args) {
  const Env env = Env::of_process();
  const auto options = parse_preflight_options(args);
  if (!options) return report_error(options.error(), "preflight: ");
  open_trainer_log(env);
  if (auto done = run_preflight(*options, env); !done)
    return report_error(done.error(), "preflight: " + rank_prefix(env));
  return 0;
}

int main_of_training(const std::vector<std::string>& args) {
  const Env env = Env::of_process();
  const auto options = parse_options(args, env);
  if (!options) return report_error(options.error(), "");
  if (options->wants_help) {
    fmt::print("{}", help_text());
    return 0;
  }
  open_trainer_log(env);
  const auto start = std::chrono::steady_clock::now();
  auto job = DistributedJob::initialise(options->backend, env);
  if (!job) return report_error(job.error(), rank_prefix(env));
  log_info("the ranks are connected", {{"backend", job->communicator().name()},
                                       {"device", options->device},
                                       {"seconds", std::chrono::steady_clock::now() - start}});
  if (auto done = train_model(*options, env, *job); !done) {
    report_failed_rank(*job, done.error());
    return report_error(done.error(), rank_prefix(env));
  }
  log_info("the trainer ends", {{"code", 0}});
  return 0;
}

}  // namespace
}  // namespace dlrun::trainer

int main(int argc, char** argv) {
  dlrun::trainer::install_signal_handlers();
  std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && args.front() == "digits") {
    args.erase(args.begin());
    return dlrun::trainer::main_of_digits(args);
  }
  if (!args.empty() && args.front() == "collectives") {
    args.erase(args.begin());
    return dlrun::trainer::main_of_collectives(args);
  }
  if (!args.empty() && args.front() == "preflight") {
    args.erase(args.begin());
    return dlrun::trainer::main_of_preflight(args);
  }
  return dlrun::trainer::main_of_training(args);
}
