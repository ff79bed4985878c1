#include "runtime/agent/program_output.h"

#include <unistd.h>

#include <climits>
#include <utility>

namespace dlrun::agent {
namespace {

constexpr std::size_t kLogQueueBytes = 4U << 20U;

/// Pushes the open line of `held`, a LineHolder or a TextMarker, once it is old or the pipe has
/// ended.
template <typename Held>
void push_open_line(std::optional<Held>& held, const std::unique_ptr<Pump>& pump, Sink& sink) {
  if (!held || !pump) return;
  sink.push(pump->is_at_end() ? held->take_rest() : held->take_late(LineHolder::Clock::now()));
}

}  // namespace

ProgramOutput::ProgramOutput(EventLoop& loop, std::function<void(const std::string&)> warn)
    : loop_(loop), warn_(std::move(warn)), out_(loop, STDOUT_FILENO), err_(loop, STDERR_FILENO) {}

void ProgramOutput::open_log(const std::filesystem::path& path) {
  auto made = make_private_directories(path.parent_path());
  auto log =
      made ? BackgroundFile::open(path.string(), kLogQueueBytes, BackgroundFile::Content::kText)
           : tl::unexpected<Error>(made.error());
  if (log) {
    log_ = std::move(*log);
  } else {
    warn_(fmt::format("no log is kept: {}", log.error().message));
  }
}

Result<> ProgramOutput::open_pipes() {
  auto out = make_output_pipe();
  if (!out) return tl::unexpected<Error>(std::move(out.error()));
  auto err = make_output_pipe();
  if (!err) return tl::unexpected<Error>(std::move(err.error()));
  out_pipe_ = std::move(*out);
  err_pipe_ = std::move(*err);
  return {};
}

void ProgramOutput::keep_lines_whole() {
  // A pipe takes a text of at most PIPE_BUF bytes as a whole.
  out_lines_.emplace(PIPE_BUF);
  err_lines_.emplace(PIPE_BUF);
}

void ProgramOutput::begin() {
  out_pipe_.write_end.reset();
  err_pipe_.write_end.reset();
  out_pump_ = std::make_unique<Pump>(
      loop_, std::move(out_pipe_.read_end), out_, [this](std::string_view bytes) {
        add_to_log(bytes);
        return out_lines_ ? out_lines_->add(bytes, LineHolder::Clock::now()) : std::string(bytes);
      });
  err_pump_ = std::make_unique<Pump>(
      loop_, std::move(err_pipe_.read_end), err_, [this](std::string_view bytes) {
        add_to_log(bytes);
        const auto now = LineHolder::Clock::now();
        if (marker_) return marker_->add(bytes, now);
        return err_lines_ ? err_lines_->add(bytes, now) : std::string(bytes);
      });
}

void ProgramOutput::add_to_log(std::string_view bytes) {
  has_printed_ = true;
  if (!log_) return;
  log_->push_or_drop(std::string(bytes));
  if (log_->dropped_bytes() == 0 || std::exchange(log_has_gaps_, true)) return;
  // The file system is too slow. The program must not wait for it, so the log loses bytes.
  warn_("the log cannot be written fast enough and has gaps");
}

std::optional<LineHolder::Clock::time_point> ProgramOutput::next_deadline() const {
  std::optional<LineHolder::Clock::time_point> next;
  const auto take_earlier = [&](const auto& held) {
    const auto due = held ? held->deadline() : std::nullopt;
    if (due && (!next || *due < *next)) next = due;
  };
  take_earlier(marker_);
  take_earlier(out_lines_);
  take_earlier(err_lines_);
  return next;
}

void ProgramOutput::tick() {
  if (out_pump_) out_pump_->tick();
  if (err_pump_) err_pump_->tick();
  push_open_line(marker_, err_pump_, err_);
  push_open_line(out_lines_, out_pump_, out_);
  push_open_line(err_lines_, err_pump_, err_);
  if (!log_) return;
  if (auto failure = log_->take_failure())
    warn_(fmt::format("the log is incomplete: {}", failure->message));
}

bool ProgramOutput::is_at_end() const {
  return (!out_pump_ || out_pump_->is_at_end()) && (!err_pump_ || err_pump_->is_at_end());
}

}  // namespace dlrun::agent
