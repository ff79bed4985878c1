// Two kinds of steps: SrunStep runs srun and parses its standard error, LocalStep starts the agents
// of all ranks as child processes.
#include "runtime/agent/step.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "common/text.h"
#include "runtime/agent/descendants.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/pump.h"
#include "runtime/agent/slurm_words.h"

namespace dlrun::agent {
namespace {

/// Number of srun's own last lines that are kept for the message about its end.
constexpr std::size_t kKeptSrunLines = 12;
constexpr std::size_t kKeptLineBytes = 1024;  ///< kept from the beginning of each such line
/// Time for a process to end after SIGKILL. The kernel may delay its end.
constexpr std::chrono::milliseconds kKillLimit{2000};

struct ProcessEnd {
  int code = 0;  ///< exit code; 128 + signal if a signal ended the process
  int signal = 0;
};

ProcessEnd process_end_of(int status) {
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

class SrunStep final : public Step {
 public:
  explicit SrunStep(const StepContext& context)
      : context_(context),
        reader_(context.marks, [this](std::string_view line) { handle_line(line); }) {}

  Result<> start(const std::vector<std::string>& argv, const Env& env) {
    auto pipe = make_output_pipe();
    if (!pipe) return tl::unexpected<Error>(std::move(pipe.error()));
    adopt_orphans();  // srun's helper process can outlive srun
    const Program program{
        .argv = argv, .env = env, .err = pipe->write_end.get(), .restores_file_limit = true};
    const auto pid = start_program(program);
    if (!pid) return tl::unexpected<Error>(pid.error());
    pid_ = *pid;
    pump_ = std::make_unique<Pump>(context_.loop, std::move(pipe->read_end), context_.err,
                                   [this](std::string_view bytes) { return reader_.read(bytes); });
    return {};
  }

  ~SrunStep() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    std::ignore = reap_within(pid_, kKillLimit);
  }

  void reap() override {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
    log_program_end(std::exchange(pid_, -1), status);
    pump_->drain();
    context_.err.push(reader_.take_rest());
    std::string words;
    for (const auto& line : last_srun_lines_) words += (words.empty() ? "" : "; ") + line;
    const auto ended = process_end_of(status);
    if (ended.signal != 0 && !is_stop_called_) context_.handler.on_srun_killed(ended.signal);
    context_.handler.on_step_end(ended.code, words);
  }

  void stop(bool kills) override {
    // On TERM srun ends a step that waits for resources, and passes the signal to the tasks of a
    // running step. On QUIT srun ends a running step immediately.
    if (pid_ <= 0) return;
    is_stop_called_ = true;
    if (!kills) {
      ::kill(pid_, SIGTERM);
      ::kill(pid_, SIGQUIT);
    } else {
      ::kill(pid_, SIGKILL);
    }
  }

  void tick() override {
    pump_->tick();
    reap();  // a SIGCHLD can be lost
  }

 private:
  /// Handles a line without a mark, as a message of Slurm if it has the form of one.
  void handle_line(std::string_view line) {
    if (const auto ended = parse_task_ends(line)) {
      for (const int task : ended->tasks)
        context_.handler.on_task_end(task, ended->host, ended->code, ended->signal);
    }
    if (const auto reason = parse_step_cancel_reason(line))
      context_.handler.on_cancel_reason(*reason);
    if (reports_out_of_memory(line)) context_.handler.on_out_of_memory();
    if (const auto nodes = parse_node_failure(line)) context_.handler.on_node_failure(*nodes);
    if (const auto failure = parse_launch_failure(line))
      context_.handler.on_launch_failure(failure->node, failure->why);
    context_.handler.on_unmarked_line(line);
    if (!line.starts_with("srun: ")) return;
    last_srun_lines_.push_back(printable(line.substr(0, kKeptLineBytes)));
    if (last_srun_lines_.size() > kKeptSrunLines) last_srun_lines_.pop_front();
  }

  StepContext context_;
  pid_t pid_ = -1;
  bool is_stop_called_ = false;
  std::unique_ptr<Pump> pump_;
  MarkedTextReader reader_;
  std::deque<std::string> last_srun_lines_;
};

class LocalStep final : public Step {
 public:
  explicit LocalStep(const StepContext& context) : context_(context) {}

  Result<> start(const std::vector<std::string>& argv, Env env, int rank_count) {
    auto out = make_output_pipe();
    auto err = make_output_pipe();
    if (!out) return tl::unexpected<Error>(std::move(out.error()));
    if (!err) return tl::unexpected<Error>(std::move(err.error()));
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.is_open()) return fail(Errc::kIo, "/dev/null: {}", errno_text(errno));
    adopt_orphans();
    env.remove_matching(
        {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_*", "SLURM_STEPID",
         "SLURM_GTIDS", "SLURM_LAUNCH_NODE_IPADDR", "PMI_*", "PMIX_*", "OMPI_COMM_WORLD_*"},
        {});
    const auto count = std::to_string(rank_count);
    for (int rank = 0; rank < rank_count; ++rank) {
      const auto number = std::to_string(rank);
      for (const auto* name : {"DLRUN_RANK", "DLRUN_LOCAL_RANK"}) env.set(name, number);
      for (const auto* name : {"DLRUN_WORLD_SIZE", "DLRUN_LOCAL_WORLD_SIZE"}) env.set(name, count);
      env.set("DLRUN_NODE_RANK", "0");
      env.set("DLRUN_NNODES", "1");
      const auto pid = start_program({.argv = argv,
                                      .env = env,
                                      .in = null.get(),
                                      .out = out->write_end.get(),
                                      .err = err->write_end.get(),
                                      .restores_file_limit = true});
      if (!pid)
        return tl::unexpected<Error>(pid.error());  // the destructor ends the started agents
      ranks_.emplace(*pid, rank);
    }
    const auto copy_to_log = [this](std::string_view bytes) {
      if (context_.log != nullptr) context_.log->push_or_drop(std::string(bytes));
      return std::string(bytes);
    };
    out_ =
        std::make_unique<Pump>(context_.loop, std::move(out->read_end), context_.out, copy_to_log);
    err_ =
        std::make_unique<Pump>(context_.loop, std::move(err->read_end), context_.err, copy_to_log);
    return {};
  }

  ~LocalStep() override {
    kill_all();
    const auto until = std::chrono::steady_clock::now() + kKillLimit;
    for (const auto& [pid, rank] : ranks_) {
      const auto left = until - std::chrono::steady_clock::now();
      std::ignore = reap_within(pid, std::chrono::duration_cast<std::chrono::milliseconds>(left));
    }
  }

  void reap() override {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = ranks_.find(pid);
      if (found == ranks_.end()) continue;  // an adopted orphan
      log_program_end(pid, status);
      const auto ended = process_end_of(status);
      if (ended.code != 0 && code_ == 0) code_ = ended.code;
      const int rank = found->second;
      ranks_.erase(found);
      context_.handler.on_task_end(rank, {}, ended.code, ended.signal);
    }
    end_if_done();
  }

  void stop(bool) override {
    // The agents had time to end their programs. Processes that are left do not react and are
    // killed.
    kill_all();
  }

  void tick() override {
    if (out_) out_->tick();
    if (err_) err_->tick();
    reap();  // a SIGCHLD can be lost
  }

 private:
  void kill_all() {
    for (const pid_t pid : descendants_without(context_.child_not_to_kill)) ::kill(pid, SIGKILL);
  }

  /// Reports the end of the step once every agent has ended. First kills the processes that a
  /// killed agent left behind.
  void end_if_done() {
    if (!ranks_.empty() || is_over_) return;
    if (!descendants_without(context_.child_not_to_kill).empty()) return kill_all();
    is_over_ = true;
    out_->drain();
    err_->drain();
    context_.handler.on_step_end(code_, {});
  }

  StepContext context_;
  std::map<pid_t, int> ranks_;  ///< ranks of the running agents, by process id
  std::unique_ptr<Pump> out_;
  std::unique_ptr<Pump> err_;
  int code_ = 0;  ///< exit code of the first agent that failed
  bool is_over_ = false;
};

}  // namespace

Result<std::unique_ptr<Step>> start_srun(const StepContext& context,
                                         const std::vector<std::string>& argv, const Env& env) {
  auto step = std::make_unique<SrunStep>(context);
  DLRUN_TRY(step->start(argv, env));
  return step;
}

Result<std::unique_ptr<Step>> start_local(const StepContext& context,
                                          const std::vector<std::string>& argv, const Env& env,
                                          int rank_count) {
  auto step = std::make_unique<LocalStep>(context);
  DLRUN_TRY(step->start(argv, env, rank_count));
  return step;
}

}  // namespace dlrun::agent
