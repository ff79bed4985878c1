#pragma once
// The user's own ssh, as argument vectors, and the connection that calls to one host share
// (ssh_config(5), ControlMaster).

#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/remote/host_file.h"

namespace dlrun {

/// The calls of ssh for one host.
class Ssh {
 public:
  /// Makes the private folder of the sockets: below $XDG_RUNTIME_DIR, else in /tmp. Fails with
  /// kInvalid if another user owns that folder.
  [[nodiscard]] static Result<Ssh> of_host(HostFile host, Env env);

  [[nodiscard]] const HostFile& host() const { return host_; }
  [[nodiscard]] const Env& env() const { return env_; }
  /// Returns the socket of the shared connection. Its path stays below 90 characters, because ssh
  /// adds 17 and the kernel takes 107.
  [[nodiscard]] const std::filesystem::path& socket() const { return socket_; }

  /// Returns true if a shared connection is open.
  [[nodiscard]] bool is_open() const;
  /// Opens the shared connection if there is none, as host().master allows. On a terminal ssh may
  /// ask for a password, a code or about the host's key. may_open: also if master is kExisting,
  /// for `dlrun host login`. Fails with kUnavailable and ssh's words.
  [[nodiscard]] Result<> open(bool has_terminal, bool may_open = false) const;
  /// Closes the shared connection. Returns false if there was none.
  [[nodiscard]] Result<bool> close() const;

  /// Returns the ssh that runs a command line on the host. words: of characters that no shell
  /// changes. wants_terminal: the command gets a terminal there.
  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& words,
                                                 bool wants_terminal) const;
  /// Returns the words that start dlrun on the host with a request's word, or "-" if the word
  /// follows on standard input.
  [[nodiscard]] std::vector<std::string> start_of(const std::string& program,
                                                  const std::string& word) const;
  /// Returns the ssh that opens the shared connection.
  [[nodiscard]] std::vector<std::string> opener(bool has_terminal) const;

 private:
  Ssh(HostFile host, Env env, std::filesystem::path socket)
      : host_(std::move(host)), env_(std::move(env)), socket_(std::move(socket)) {}

  HostFile host_;
  Env env_;
  std::filesystem::path socket_;
};

/// Returns the message about an ssh that could not connect: ssh's words and what to do. words: what
/// ssh printed, perhaps with other text before it.
[[nodiscard]] std::string connection_text(const HostFile& host, std::string_view words,
                                          bool has_terminal);

}  // namespace dlrun
