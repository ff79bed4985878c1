#pragma once
// Submissions that are being sent, or were sent, to a host and have no answer yet. Each submission
// has a file with its token, so that dlrun can ask again.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/env.h"
#include "common/files.h"
#include "common/result.h"

namespace dlrun {

/// The record of a submission without an answer. While this object exists, no other dlrun continues
/// the submission.
class UnansweredSubmission {
 public:
  /// Returns the record of an earlier call of the same command that got no answer. If there is
  /// none, or if other processes are using all such records, writes a new record with a new token
  /// to the disk. identity: a text that identifies the command by its folder, arguments and spec.
  /// shown: the command line for people. Fails with kUnavailable if another process has just taken
  /// the new record.
  [[nodiscard]] static Result<UnansweredSubmission> find_or_make(const Env& env,
                                                                 const std::string& host,
                                                                 const std::string& identity,
                                                                 const std::string& shown);

  [[nodiscard]] const std::string& token() const { return token_; }
  /// Returns true if an earlier call made the record. That call may have sent the token.
  [[nodiscard]] bool is_from_earlier_call() const { return is_from_earlier_call_; }
  /// Deletes the record. Call it after the user has seen the host's answer, or if the token was not
  /// sent.
  void remove();

 private:
  UnansweredSubmission(std::string token, std::filesystem::path file, UniqueFd lock,
                       bool is_from_earlier_call)
      : token_(std::move(token)),
        file_(std::move(file)),
        lock_(std::move(lock)),
        is_from_earlier_call_(is_from_earlier_call) {}

  std::string token_;
  std::filesystem::path file_;
  UniqueFd lock_;
  bool is_from_earlier_call_;
};

/// Returns the command lines, for people, of the submissions to the host that have no answer. A
/// record that cannot be read gives an empty text.
[[nodiscard]] std::vector<std::string> unanswered_commands(const Env& env, const std::string& host);

}  // namespace dlrun
