#include "runtime/agent/step.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "common/text.h"
#include "runtime/agent/process_tree.h"
#include "runtime/agent/pump.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kLineLimitBytes = 4096;
constexpr std::size_t kWordsLimitLines = 12;
constexpr std::size_t kTasksLimit = 100'000;
constexpr std::string_view kOutOfMemory = "Out Of Memory";

struct Ended {
  int code = 0;  ///< 128 + signal where a signal ended it
  int signal = 0;
};

Ended ended_of(int status) {
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

/// "3,5-6" as {3, 5, 6}.
std::optional<std::vector<int>> task_list(std::string_view text) {
  std::vector<int> tasks;
  for (const auto part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last - *first >= static_cast<std::int64_t>(kTasksLimit) ||
        tasks.size() > kTasksLimit) {
      return std::nullopt;
    }
    for (auto task = *first; task <= *last; ++task) tasks.push_back(static_cast<int>(task));
  }
  return tasks;
}

class SrunStep final : public Step {
 public:
  explicit SrunStep(const StepPlumbing& plumbing) : plumbing_(plumbing) {}

  Result<> start(const std::vector<std::string>& argv, const Env& env) {
    auto pipe = make_output_pipe();
    if (!pipe) return tl::unexpected<Error>(std::move(pipe.error()));
    const Program program{.argv = argv, .env = env, .err = pipe->write_end.get(), .restores_file_limit = true};
    const auto pid = start_program(program);
    if (!pid) return tl::unexpected<Error>(pid.error());
    pid_ = *pid;
    pump_ = std::make_unique<Pump>(plumbing_.loop, std::move(pipe->read_end), plumbing_.err,
                                   [this](std::string_view bytes) { listen(bytes); });
    return {};
  }

  ~SrunStep() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void reap() override {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
    pid_ = -1;
    pump_->drain();
    std::string words;
    for (const auto& line : words_) words += (words.empty() ? "" : "; ") + line;
    plumbing_.handler.on_step_end(ended_of(status).code, words);
  }

  void stop(bool without_mercy) override {
    // On TERM srun ends a step that waits for resources, and signals the tasks of one that runs; QUIT is its word for
    // ending a running step at once.
    if (pid_ <= 0) return;
    if (!without_mercy) {
      ::kill(pid_, SIGTERM);
      ::kill(pid_, SIGQUIT);
    } else {
      ::kill(pid_, SIGKILL);
    }
  }

  void tick() override { pump_->tick(); }

 private:
  void listen(std::string_view bytes) {
    for (const char c : bytes) {
      if (c != '\n') {
        if (line_.size() < kLineLimitBytes) line_ += c;
        continue;
      }
      if (line_.starts_with("srun: ")) hear(line_);
      if (const auto reason = parse_cancel_reason(line_)) plumbing_.handler.on_cancelled(*reason);
      if (tells_out_of_memory(line_)) plumbing_.handler.on_out_of_memory();
      if (const auto nodes = parse_node_failure(line_)) plumbing_.handler.on_node_failure(*nodes);
      line_.clear();
    }
  }

  void hear(const std::string& line) {
    if (const auto ended = parse_task_words(line)) {
      for (const int task : ended->tasks) {
        plumbing_.handler.on_task_end(task, ended->host, ended->code, ended->signal);
      }
    }
    words_.push_back(printable(line));
    if (words_.size() > kWordsLimitLines) words_.pop_front();
  }

  StepPlumbing plumbing_;
  pid_t pid_ = -1;
  std::unique_ptr<Pump> pump_;
  std::string line_;
  std::deque<std::string> words_;
};

class LocalStep final : public Step {
 public:
  explicit LocalStep(const StepPlumbing& plumbing) : plumbing_(plumbing) {}

  Result<> start(const std::vector<std::string>& argv, Env env, int ranks) {
    auto out = make_output_pipe();
    auto err = make_output_pipe();
    if (!out) return tl::unexpected<Error>(std::move(out.error()));
    if (!err) return tl::unexpected<Error>(std::move(err.error()));
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.is_open()) return fail(Errc::kIo, "/dev/null: {}", errno_text(errno));
    adopt_orphans();
    env.remove_matching({"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_*", "SLURM_STEPID", "SLURM_GTIDS",
                         "SLURM_LAUNCH_NODE_IPADDR", "PMI_*", "PMIX_*", "OMPI_COMM_WORLD_*"},
                        {});
    const auto count = std::to_string(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
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
      if (!pid) return tl::unexpected<Error>(pid.error());  // the destructor ends those that were started
      ranks_.emplace(*pid, rank);
    }
    const auto tap = [this](std::string_view bytes) {
      if (plumbing_.log != nullptr) std::ignore = plumbing_.log->push(std::string(bytes));
    };
    out_ = std::make_unique<Pump>(plumbing_.loop, std::move(out->read_end), plumbing_.out, tap);
    err_ = std::make_unique<Pump>(plumbing_.loop, std::move(err->read_end), plumbing_.err, tap);
    return {};
  }

  ~LocalStep() override {
    for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
    for (const auto& [pid, rank] : ranks_) ::waitpid(pid, nullptr, 0);
  }

  void reap() override {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = ranks_.find(pid);
      if (found == ranks_.end()) continue;  // an orphan that we have adopted
      const auto ended = ended_of(status);
      if (ended.code != 0 && code_ == 0) code_ = ended.code;
      const int rank = found->second;
      ranks_.erase(found);
      plumbing_.handler.on_task_end(rank, {}, ended.code, ended.signal);
    }
    end_if_done();
  }

  void stop(bool) override {
    // The agents have had their time to end their programs; what is left does not listen.
    kill_all();
  }

  void tick() override {
    if (out_) out_->tick();
    if (err_) err_->tick();
    if (ranks_.empty()) end_if_done();
  }

 private:
  void kill_all() {
    for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
  }

  /// Over when every agent has ended, and every process that one of them left behind when it was killed.
  void end_if_done() {
    if (!ranks_.empty() || is_over_) return;
    if (!descendants().empty()) return kill_all();
    is_over_ = true;
    out_->drain();
    err_->drain();
    plumbing_.handler.on_step_end(code_, {});
  }

  StepPlumbing plumbing_;
  std::map<pid_t, int> ranks_;  ///< of agents that run
  std::unique_ptr<Pump> out_;
  std::unique_ptr<Pump> err_;
  int code_ = 0;
  bool is_over_ = false;
};

}  // namespace

std::optional<TaskWords> parse_task_words(std::string_view line) {
  constexpr std::string_view kStart = "srun: error: ";
  if (!line.starts_with(kStart)) return std::nullopt;
  line.remove_prefix(kStart.size());
  const auto after_host = line.find(": task");
  if (after_host == std::string_view::npos) return std::nullopt;
  TaskWords words{.host = std::string(line.substr(0, after_host))};
  line.remove_prefix(after_host + std::strlen(": task"));
  if (line.starts_with("s")) line.remove_prefix(1);
  const auto colon = line.find(": ");
  if (!line.starts_with(" ") || colon == std::string_view::npos) return std::nullopt;
  auto tasks = task_list(line.substr(1, colon - 1));
  if (!tasks) return std::nullopt;
  words.tasks = std::move(*tasks);
  auto how = line.substr(colon + 2);
  if (constexpr std::string_view kExited = "Exited with exit code "; how.starts_with(kExited)) {
    const auto code = parse_int(trim(how.substr(kExited.size())));
    if (!code || *code < 0 || *code > 255) return std::nullopt;
    words.code = static_cast<int>(*code);
    return words;
  }
  if (trim(how) == kOutOfMemory) {
    words.signal = SIGKILL;
    words.code = 128 + SIGKILL;
    return words;
  }
  how = how.substr(0, how.find(" (core dumped)"));
  for (int number = 1; number < NSIG; ++number) {
    const char* description = sigdescr_np(number);
    if (description != nullptr && trim(how) == description) {
      words.signal = number;
      words.code = 128 + number;
      return words;
    }
  }
  return std::nullopt;
}

bool tells_out_of_memory(std::string_view line) {
  if (line.starts_with("srun: error: ")) return line.ends_with(kOutOfMemory);
  return line.starts_with("slurmstepd") && line.find(": error: Detected ") != std::string_view::npos &&
         (line.find(" oom_kill event") != std::string_view::npos ||
          line.find(" oom-kill event") != std::string_view::npos);
}

std::optional<std::string_view> parse_node_failure(std::string_view line) {
  constexpr std::string_view kStart = "srun: error: Node failure on ";
  if (!line.starts_with(kStart)) return std::nullopt;
  return trim(line.substr(kStart.size()));
}

namespace {

/// The reason in slurmstepd's words about the end of what it keeps; empty where they give none.
std::optional<std::string_view> reason_behind(std::string_view keeps, std::string_view line) {
  constexpr std::string_view kDueTo = " DUE TO ";
  constexpr std::string_view kEnd = " ***";
  if (!line.starts_with("slurmstepd") || !line.ends_with(kEnd)) return std::nullopt;
  const auto cancelled = line.find(" CANCELLED AT ", std::min(line.find(keeps), line.size()));
  if (cancelled == std::string_view::npos) return std::nullopt;
  line.remove_suffix(kEnd.size());
  const auto due_to = line.find(kDueTo, cancelled);
  return due_to == std::string_view::npos ? std::string_view() : line.substr(due_to + kDueTo.size());
}

}  // namespace

std::optional<std::string_view> parse_cancel_reason(std::string_view line) {
  const auto reason = reason_behind(": error: *** STEP ", line);
  return reason && !reason->empty() ? reason : std::nullopt;
}

std::optional<std::string_view> parse_job_cancel(std::string_view line) {
  return reason_behind(": error: *** JOB ", line);
}

Result<std::unique_ptr<Step>> start_srun(const StepPlumbing& plumbing, const std::vector<std::string>& argv,
                                         const Env& env) {
  auto step = std::make_unique<SrunStep>(plumbing);
  DLRUN_TRY(step->start(argv, env));
  return step;
}

Result<std::unique_ptr<Step>> start_local(const StepPlumbing& plumbing, const std::vector<std::string>& argv,
                                          const Env& env, int ranks) {
  auto step = std::make_unique<LocalStep>(plumbing);
  DLRUN_TRY(step->start(argv, env, ranks));
  return step;
}

}  // namespace dlrun::agent
