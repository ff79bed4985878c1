#include "runtime/trainer/loop/trace.h"

#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/files.h"

namespace dlrun::trainer {
namespace {

/// Index of the first track, which shows the steps; the track of bucket i is i + 1.
constexpr std::size_t kStepsTrack = 0;

double microseconds(Trace::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// Returns the events that give a rank and its tracks the names that viewers show.
std::string naming_events(int rank, const std::string& host, std::size_t bucket_count) {
  const nlohmann::json name = fmt::format("rank {} on {}", rank, host);
  std::string text = fmt::format(
      R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":{1}}}}},)"
      "\n"
      R"({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}},)"
      "\n"
      R"({{"ph":"M","pid":{0},"tid":{2},"name":"thread_name","args":{{"name":"steps"}}}})",
      rank, name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), kStepsTrack);
  for (std::size_t i = 0; i < bucket_count; ++i) {
    text += fmt::format(
        ",\n"
        R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"bucket {}"}}}})",
        rank, i + 1, i);
  }
  return text;
}

Result<> write_trace_file(const std::filesystem::path& path, const std::string& events) {
  DLRUN_TRY(make_private_directories(path.parent_path()));
  return write_file_atomic(path,
                           "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events + "\n]}\n");
}

}  // namespace

Trace::Span::Span(Trace* trace, const char* name, const char* amount_name, std::uint64_t amount)
    : trace_(trace != nullptr && trace->is_recording() ? trace : nullptr),
      name_(name),
      amount_name_(amount_name),
      amount_(amount) {
  if (trace_ != nullptr) begin_ = Clock::now();
}

Trace::Span::~Span() {
  if (trace_ != nullptr)
    trace_->events_.push_back({name_, amount_name_, amount_, begin_, Clock::now(), kStepsTrack});
}

Trace::Trace(Communicator& communicator, Options options)
    : communicator_(&communicator), options_(std::move(options)), steps_left_(options_.steps) {}

Result<Trace> Trace::start(Communicator& communicator, Options options) {
  Trace trace(communicator, std::move(options));
  if (auto met = communicator.barrier(); !met) return tl::unexpected(met.error());
  trace.start_ = Clock::now();
  return trace;
}

void Trace::add_span(const char* name, Clock::time_point begin, Clock::time_point end) {
  if (is_recording()) events_.push_back({name, nullptr, 0, begin, end, kStepsTrack});
}

void Trace::add_bucket_span(std::size_t i, const char* name, std::uint64_t bytes,
                            Clock::time_point begin, Clock::time_point end) {
  if (is_recording()) events_.push_back({name, "bytes", bytes, begin, end, i + 1});
}

bool Trace::end_step() {
  return is_recording() && --steps_left_ == 0;
}

std::string Trace::events_json() const {
  const int rank = communicator_->rank();
  std::string text = naming_events(rank, options_.host, options_.bucket_count);
  for (const Event& event : events_) {
    text += fmt::format(
        ",\n"
        R"({{"ph":"X","pid":{},"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f})",
        rank, event.track, event.name, microseconds(event.begin - start_),
        microseconds(event.end - event.begin));
    text += event.amount_name == nullptr
                ? "}"
                : fmt::format(R"(,"args":{{"{}":{}}}}})", event.amount_name, event.amount);
  }
  return text;
}

Result<> Trace::write() {
  steps_left_ = 0;
  std::string own = events_json();
  Result<> mine = write_trace_file(
      fmt::format("{}-rank-{:04}.json", options_.prefix.string(), communicator_->rank()), own);
  // Broadcast the events of one rank after the other. Rank 0 collects them all; every other rank
  // holds at most its own events and those of one other rank.
  std::string all;
  for (int rank = 0; rank < communicator_->size(); ++rank) {
    std::string events = rank == communicator_->rank() ? std::move(own) : std::string();
    std::uint64_t length = events.size();
    DLRUN_TRY(communicator_->broadcast(std::span(&length, 1), rank));
    events.resize(length);
    DLRUN_TRY(communicator_->broadcast(
        std::span(reinterpret_cast<std::uint8_t*>(events.data()), length), rank));
    if (communicator_->rank() == 0) all += (all.empty() ? "" : ",\n") + events;
  }
  events_.clear();
  if (communicator_->rank() == 0 && mine)
    mine = write_trace_file(options_.prefix.string() + ".json", all);
  return mine;
}

}  // namespace dlrun::trainer
