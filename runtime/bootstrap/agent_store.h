#pragma once
// The agent's store, over the descriptor that `dlrun-agent rank --trusted` hands to its program
// (ENVIRONMENT.md, "The store").

#include <mutex>
#include <string>

#include "common/files.h"
#include "runtime/bootstrap/store.h"

namespace dlrun {

/// Speaks one request at a time; a get that waits holds back the others.
class AgentStore final : public Store {
 public:
  /// Takes the descriptor, which must be a connected stream socket, and marks it close-on-exec.
  [[nodiscard]] static Result<std::unique_ptr<AgentStore>> open(UniqueFd socket);

  [[nodiscard]] Result<> put(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> get(std::string_view key,
                                        std::chrono::milliseconds wait) override;
  [[nodiscard]] Result<> report_progress(std::string_view json_object) override;

 private:
  explicit AgentStore(UniqueFd socket) : socket_(std::move(socket)) {}

  /// Sends a line; after a failure the connection is closed, since its state is not known.
  [[nodiscard]] Result<> send_line(std::string_view line);
  /// One line, without its newline. limit bounds the whole wait.
  [[nodiscard]] Result<std::string> receive_line(std::chrono::milliseconds limit);

  std::mutex mutex_;
  UniqueFd socket_;
  std::string received_;  ///< what came after the last line
};

}  // namespace dlrun
