#pragma once
// The client of the agent's store. Uses the socket that `dlrun-agent rank --bundled` passes to its
// program (ENVIRONMENT.md, "The store").

#include <chrono>
#include <mutex>
#include <string>

#include "common/files.h"
#include "runtime/bootstrap/store.h"

namespace dlrun {

/// Sends one request at a time. A get() that waits blocks the requests of other threads. If the
/// agent refuses a request, put() and get() fail with kTimeout, kInvalid or kRefused, as the reply
/// says. Both fail with kInternal if the agent's reply cannot be read.
class AgentStore final : public Store {
 public:
  /// Takes ownership of a connected stream socket and makes it close-on-exec. Fails with kInvalid
  /// if the descriptor is not a stream socket, and with kIo if it cannot be made close-on-exec.
  /// `answer_within`: limit for sending a request, and for receiving its reply. The reply to get()
  /// may take this time in addition to get()'s `wait`.
  [[nodiscard]] static Result<std::unique_ptr<AgentStore>> open(
      UniqueFd socket, std::chrono::milliseconds answer_within = std::chrono::seconds(30));

  [[nodiscard]] Result<> put(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> get(std::string_view key,
                                        std::chrono::milliseconds wait) override;
  [[nodiscard]] Result<> report_progress(std::string_view json_object) override;

 private:
  AgentStore(UniqueFd socket, std::chrono::milliseconds answer_within)
      : socket_(std::move(socket)), answer_within_(answer_within) {}

  /// Sends a line. Closes the connection after a failure, because the agent may have received only
  /// a part of the line.
  [[nodiscard]] Result<> send_line(std::string_view line);
  /// Returns the next line, without its newline. `limit` bounds the whole wait. Closes the
  /// connection after a failure, because the next call would otherwise read a late reply.
  [[nodiscard]] Result<std::string> receive_line(std::chrono::milliseconds limit);

  std::mutex mutex_;
  UniqueFd socket_;
  std::chrono::milliseconds answer_within_;
  std::string received_;  ///< bytes that arrived after the last line
};

}  // namespace dlrun
