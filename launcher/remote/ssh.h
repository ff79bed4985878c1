#pragma once
// The command lines of the user's ssh, and the connection that all commands on one host share
// (ssh_config(5), ControlMaster).

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"
#include "launcher/remote/host_file.h"

namespace dlrun {

/// Builds the command lines of ssh for one host, and manages the shared connection to the host.
class Ssh {
 public:
  /// Makes the private folder of the sockets: below $XDG_RUNTIME_DIR, else in `tmp`, else below
  /// ~/.cache. can_ask: a person at a terminal can answer ssh's questions. If none of the three
  /// folders can be used, the folder in `tmp` decides the error: kInvalid if another user owns it
  /// or can enter it, kIo if it cannot be made.
  [[nodiscard]] static Result<Ssh> of_host(HostFile host, Env env, bool can_ask,
                                           const std::filesystem::path& tmp = "/tmp");

  [[nodiscard]] const HostFile& host() const { return host_; }
  [[nodiscard]] const Env& env() const { return env_; }
  [[nodiscard]] bool can_ask() const { return can_ask_; }
  /// Returns true if every call opens its own connection and ssh may ask questions. The call must
  /// then stay in the foreground of the terminal.
  [[nodiscard]] bool asks_each_time() const { return can_ask_ && host_.master == MasterUse::kNone; }
  /// Returns the socket of the shared connection. Its path has fewer than 90 characters,
  /// because ssh adds 17 characters and the kernel accepts 107 at most.
  [[nodiscard]] const std::filesystem::path& socket() const { return socket_; }

  /// Returns true if a shared connection is open.
  [[nodiscard]] bool is_open() const;
  /// Opens the shared connection unless it is open or host().master is kNone. If can_ask() is true,
  /// ssh may ask for a password or a code, and whether to accept the host's key. is_login: opens
  /// the connection even if master is kExisting, for `dlrun host login`. patience: the longest wait
  /// for another dlrun that is opening the connection. Fails with kUnavailable
  /// - and ssh's message if ssh cannot connect;
  /// - and the command line of the other dlrun if that dlrun still opens the connection after
  ///   `patience`;
  /// - if master is kExisting and no connection is open.
  [[nodiscard]] Result<> open(bool is_login = false,
                              std::chrono::seconds patience = std::chrono::seconds(60)) const;
  /// Closes the shared connection. Returns false if there was none.
  [[nodiscard]] Result<bool> close() const;

  /// Takes one of the six sessions of the shared connection that dlrun uses for commands. Closing
  /// the descriptor frees the session. Waits up to `patience` for a free one, and then fails with
  /// kUnavailable. If the host's file says `master: none`, returns a UniqueFd without a descriptor.
  ///
  /// is_rsync: takes one of two more sessions that only rsync's remote shell uses. These sessions
  /// are separate, because the submission that waits for rsync holds a session already. sshd allows
  /// ten sessions in all (MaxSessions).
  [[nodiscard]] Result<UniqueFd> lock_session_slot(
      bool is_rsync, std::chrono::seconds patience = std::chrono::seconds(20)) const;

  /// Returns the argument vector of the ssh that runs a command line on the host. arguments: made
  /// of characters that no shell changes. wants_terminal: the command gets a terminal there.
  [[nodiscard]] std::vector<std::string> command_argv(const std::vector<std::string>& arguments,
                                                      bool wants_terminal) const;
  /// Returns the arguments of command_argv() that start dlrun on the host. program: the path of
  /// dlrun there. word: the request as one word (request.h), or "-" if the request follows on
  /// standard input.
  [[nodiscard]] std::vector<std::string> arguments_that_start(const std::string& program,
                                                              const std::string& word) const;
  /// Returns the argument vector of the ssh that opens the shared connection.
  [[nodiscard]] std::vector<std::string> opener_argv() const;

 private:
  Ssh(HostFile host, Env env, std::filesystem::path socket, bool can_ask)
      : host_(std::move(host)),
        env_(std::move(env)),
        socket_(std::move(socket)),
        can_ask_(can_ask) {}

  HostFile host_;
  Env env_;
  std::filesystem::path socket_;
  bool can_ask_ = false;
};

/// Returns the error message if ssh could not connect, with advice for the user. printed: the
/// text that ssh printed; empty if ssh printed it on the terminal.
[[nodiscard]] std::string connection_error_text(const Ssh& ssh, std::string_view printed);

}  // namespace dlrun
