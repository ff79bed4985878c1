#pragma once
// Asks a component again and again, over TCP or HTTP, whether it is ready. Runs in the thread of
// lead's event loop. The answers come from the user's program, so only the status line is read.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"
#include "runtime/agent/address.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/event_loop.h"

namespace dlrun::agent {

/// Returns the code of an HTTP response, such as 200 of "HTTP/1.1 200 OK"; nullopt if the text does
/// not begin like a response.
[[nodiscard]] std::optional<int> parse_http_status(std::string_view response);

class ReadyProbe {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kTryEvery{500};   ///< from one try to the next
  static constexpr std::chrono::milliseconds kTryLimit{5000};  ///< time for one answer
  static constexpr std::size_t kAnswerLimitBytes = 256;        ///< most bytes read of an answer

  /// loop must outlive the probe. check.kind must be kTcp or kHttp.
  ReadyProbe(EventLoop& loop, Endpoint endpoint, ReadyCheck check);
  ~ReadyProbe();
  ReadyProbe(const ReadyProbe&) = delete;
  ReadyProbe& operator=(const ReadyProbe&) = delete;

  /// Ends a try that exceeds kTryLimit, and begins the next one kTryEvery after the previous one
  /// began. Call it after each round of the loop.
  void tick(Clock::time_point now);
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  /// Returns the request of the latest try and the reason why the try failed, for the user.
  [[nodiscard]] std::string problem() const;

 private:
  void begin_try(Clock::time_point now);
  void on_socket();
  void send_request();
  void read_answer();
  void end_try(std::string problem);

  EventLoop& loop_;
  Endpoint endpoint_;
  ReadyCheck check_;
  UniqueFd socket_;
  std::optional<EventLoop::Watch> watch_;
  bool is_connected_ = false;
  std::string answer_;
  Clock::time_point began_{};
  Clock::time_point next_{};
  std::string problem_ = "there was no answer";
  bool is_ready_ = false;
};

}  // namespace dlrun::agent
