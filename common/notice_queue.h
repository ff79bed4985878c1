#pragma once
// The notices of a run that wait to be sent: the folder RUN/notify, which only its owner can enter.
// Each notice waits in one file per way of sending, TIME-RANDOM.webhook or TIME-RANDOM.command.
//
// A sender claims the file NAME by renaming it to NAME.claimed, so that only one process sends the
// notice. After it has tried to send the notice, the sender does one of four things:
//
// - The notice was sent: the sender removes the file.
// - The notice certainly did not arrive: the sender renames the file to NAME again.
// - The receiver refused the notice, or the notice is damaged or too old: the sender renames the
//   file to NAME.refused.
// - The notice may have arrived, so a second try could send it twice: the sender renames the file
//   to NAME.unconfirmed.
//
// A file stays claimed if its sender was killed.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/notice.h"
#include "common/result.h"

namespace dlrun {

/// The ways in which the notices of a run are sent.
struct NoticeTargets {
  std::string webhook{};               ///< an address, which is secret; empty: none
  std::vector<std::string> command{};  ///< argv with placeholders; empty: none
  [[nodiscard]] bool is_given() const { return !webhook.empty() || !command.empty(); }
};

/// How many notices were sent, how many became unconfirmed or refused, and how many wait
/// afterwards.
struct SendReport {
  std::size_t sent = 0, waiting = 0, unconfirmed = 0, refused = 0;
  std::string problem{};  ///< why the latest unsent notice was not sent; empty: none
};

/// The ways of sending that a sender uses. If a run was copied from another user, its queue may
/// contain any command. Therefore `dlrun notify --relay` runs commands only of runs that are given
/// on its command line.
enum class SendBy { kWebhooks, kWebhooksAndCommands };

/// A notice in the queue, as `dlrun notify` lists it.
struct QueuedNotice {
  std::string way{};    ///< "webhook", "command"
  std::string state{};  ///< "waiting", "claimed", "refused", "unconfirmed"
  Notice notice;
};

class NoticeQueue {
 public:
  explicit NoticeQueue(const std::filesystem::path& run) : folder_(run / "notify") {}

  /// Adds a notice for each target, durably. Also stores the address of the webhook in a separate
  /// file, for later senders. Fails with kRefused if the queue is full, with kInvalid if the folder
  /// belongs to another user or is open to others, and with kIo if a file cannot be written.
  [[nodiscard]] Result<> put(const Notice& notice, const NoticeTargets& targets) const;

  /// Tries to send each waiting notice once: first those for the webhook, then those for the
  /// command, the oldest first. Refuses a notice that is older than kNoticeExpiry. may_start:
  /// called before each notice; false ends the call. If a notice could not be sent, skips the other
  /// notices that would be sent in the same way. Removes the stored address when no notice for the
  /// webhook waits or is being sent.
  [[nodiscard]] SendReport send(const Env& env, SendBy by,
                                const std::function<bool()>& may_start) const;

  /// Returns true if a notice waits to be sent in one of these ways. Costs one or two system calls
  /// if the run has no queue.
  [[nodiscard]] bool has_waiting(SendBy by = SendBy::kWebhooksAndCommands) const;
  /// Returns the notices of all states in the folder, the oldest first.
  [[nodiscard]] std::vector<QueuedNotice> list() const;

  /// The queue is full if this many notices wait.
  static constexpr std::size_t kMostWaiting = 100;

 private:
  /// Fails if the path is not a folder, belongs to another user, or is open to other users.
  [[nodiscard]] Result<> check_folder() const;
  /// Returns the names of files with this ending, sorted; empty if the folder is missing or
  /// refused.
  [[nodiscard]] std::vector<std::string> names_with(std::string_view ending) const;
  /// Returns the content of a file of the folder. Fails with kInvalid if the file belongs to
  /// another user.
  [[nodiscard]] Result<std::string> read_own_file(const std::string& name) const;
  /// Returns true if a notice for the webhook waits, or is being sent by this or another sender.
  [[nodiscard]] bool needs_address() const;
  /// Removes the stored address. Writes it again if put() has meanwhile added a notice that needs
  /// it.
  void remove_address() const;

  std::filesystem::path folder_;
};

/// The longest time for one request, and for one call of notify.command.
inline constexpr std::chrono::seconds kWebhookLimit{5};
inline constexpr std::chrono::seconds kNoticeCommandLimit{10};
/// A notice that waits for longer than this is not sent any more.
inline constexpr std::chrono::hours kNoticeExpiry{72};

}  // namespace dlrun
