#include "common/notice_queue.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/curl_process.h"
#include "common/file_and_owner.h"
#include "common/files.h"
#include "common/json_read.h"
#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kWebhookEnding = ".webhook", kCommandEnding = ".command";
constexpr std::string_view kClaimedEnding = ".claimed", kRefusedEnding = ".refused",
                           kUnconfirmedEnding = ".unconfirmed";
constexpr const char* kAddressFile = "address";
constexpr std::size_t kLargestNoticeFileBytes = 64U << 10U;
constexpr std::size_t kDigitsOfTime = 13;  ///< milliseconds since 1970, in a file's name

/// The result of one attempt to send a notice.
enum class Outcome { kSent, kNotSent, kUnconfirmed, kRefused };
struct Delivery {
  Outcome outcome = Outcome::kSent;
  std::string problem{};
};

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Returns true if the notice with this file name has waited for too long, or if the name has no
/// time.
bool is_expired(std::string_view name) {
  const auto made_ms = parse_int(name.substr(0, kDigitsOfTime));
  constexpr auto kLimit = std::chrono::duration_cast<std::chrono::milliseconds>(kNoticeExpiry);
  return !made_ms || now_ms() - *made_ms > kLimit.count();
}

Delivery send_to_webhook(const Env& env, const std::string& address, const Notice& notice) {
  if (address.empty())
    return {Outcome::kNotSent,
            "the webhook's address (notify/address) is missing or cannot be read"};
  const auto reply =
      send_by_curl(env, {.url = address, .body = webhook_body(address, notice)}, kWebhookLimit);
  if (!reply) {
    const bool is_missing = reply.error().code == Errc::kNotFound;
    return {reply.error().code == Errc::kInvalid ? Outcome::kRefused : Outcome::kNotSent,
            is_missing ? "this machine has no curl in PATH" : reply.error().message};
  }
  if (reply->status >= 200 && reply->status < 300) return {};
  if (reply->status == 0)
    return {reply->request_may_have_arrived ? Outcome::kUnconfirmed : Outcome::kNotSent,
            reply->problem};
  // The server timed out, got too many requests, or has a fault that may pass.
  const bool may_pass = reply->status == 408 || reply->status == 429 || reply->status >= 500;
  return {may_pass ? Outcome::kNotSent : Outcome::kRefused,
          reply->status >= 300 && reply->status < 400
              ? fmt::format("the webhook answers with a redirect ({}), which dlrun does not follow",
                            reply->status)
              : fmt::format("the webhook answers with status {}", reply->status)};
}

/// Runs a notice's command in `directory`, to which the program's path may be relative.
Delivery run_notice_command(const Env& env, const std::vector<std::string>& words,
                            const std::string& directory, const Notice& notice) {
  Command command;
  command.argv = notice_command(words, notice);
  std::error_code error;
  if (!directory.empty()) {
    if (!std::filesystem::is_directory(directory, error))
      return {Outcome::kNotSent,
              fmt::format("notify.command: there is no folder {}", printable(directory))};
    command.directory = directory;
    std::string& program = command.argv.front();
    if (program.find('/') != std::string::npos)
      program = (std::filesystem::path(directory) / program).lexically_normal().string();
  }
  command.env = env;
  command.stdin_text = notice.text();
  command.timeout = kNoticeCommandLimit;
  const auto finished = run_command(command);
  if (!finished) {
    return {finished.error().code == Errc::kTimeout ? Outcome::kUnconfirmed : Outcome::kNotSent,
            "notify.command: " + finished.error().message};
  }
  if (finished->exit_code == 0) return {};
  return {Outcome::kNotSent, fmt::format("notify.command: {} ended with code {}",
                                         printable(command.argv.front()), finished->exit_code)};
}

/// Removes or renames the claimed file according to the outcome, and counts the notice in the
/// report. Returns false if the notice waits again.
bool apply_outcome(const std::filesystem::path& notice, Outcome outcome, SendReport& report) {
  const std::string claimed = notice.string() + std::string(kClaimedEnding);
  const auto rename_to = [&](std::string_view ending) {
    std::ignore = ::rename(claimed.c_str(), (notice.string() + std::string(ending)).c_str());
  };
  switch (outcome) {
    case Outcome::kSent:
      ++report.sent;
      ::unlink(claimed.c_str());
      return true;
    case Outcome::kUnconfirmed:
      ++report.unconfirmed;
      rename_to(kUnconfirmedEnding);
      return true;
    case Outcome::kRefused:
      ++report.refused;
      rename_to(kRefusedEnding);
      return true;
    case Outcome::kNotSent:
      rename_to("");
      return false;
  }
  return false;
}

/// Returns the command in the file of a notice; empty if the file has none or a malformed one.
std::vector<std::string> argv_in(const nlohmann::ordered_json& object) {
  std::vector<std::string> words;
  const auto found = object.find("argv");
  if (found == object.end() || !found->is_array()) return words;
  for (const auto& word : *found) {
    if (!word.is_string()) return {};
    words.push_back(word.get<std::string>());
  }
  return words;
}

}  // namespace

Result<> NoticeQueue::check_folder() const {
  struct stat info {};
  if (::lstat(folder_.c_str(), &info) != 0)
    return fail(errno == ENOENT || errno == ENOTDIR ? Errc::kNotFound : Errc::kIo, "{}: {}",
                printable(folder_.string()), errno_text(errno));
  if (!S_ISDIR(info.st_mode))
    return fail(Errc::kInvalid, "{}: not a folder", printable(folder_.string()));
  if (info.st_uid != ::geteuid())
    return fail(Errc::kInvalid, "{}: belongs to another user", printable(folder_.string()));
  if ((info.st_mode & 077U) != 0)
    return fail(Errc::kInvalid, "{}: is open to others (mode {:o}); it must be 0700",
                printable(folder_.string()), info.st_mode & 0777U);
  return {};
}

std::vector<std::string> NoticeQueue::names_with(std::string_view ending) const {
  std::vector<std::string> names;
  if (!check_folder()) return names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    auto name = at->path().filename().string();
    if (!name.starts_with('.') && name.ends_with(ending)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> NoticeQueue::read_own_file(const std::string& name) const {
  DLRUN_TRY(check_folder());
  DLRUN_TRY_ASSIGN(auto file,
                   read_file_and_owner(folder_ / name, kLargestNoticeFileBytes, Links::kRefuse));
  if (file.owner != ::geteuid())
    return fail(Errc::kInvalid, "{}: belongs to another user",
                printable((folder_ / name).string()));
  return std::move(file.text);
}

Result<> NoticeQueue::put(const Notice& notice, const NoticeTargets& targets) const {
  DLRUN_TRY(make_private_directories(folder_));
  DLRUN_TRY(check_folder());
  const auto waiting = names_with(kWebhookEnding).size() + names_with(kCommandEnding).size();
  if (waiting >= kMostWaiting)
    return fail(Errc::kRefused, "{}: {} notices wait already", printable(folder_.string()),
                waiting);
  const auto stem = fmt::format("{:013}-{}", now_ms(), random_hex(4));
  auto object = notice.to_json();
  if (!targets.webhook.empty()) {
    DLRUN_TRY(write_file_atomic(folder_ / (stem + std::string(kWebhookEnding)),
                                json_read::dump(object), 0600));
    if (read_own_file(kAddressFile).value_or("") != targets.webhook)
      DLRUN_TRY(write_file_atomic(folder_ / kAddressFile, targets.webhook, 0600));
  }
  if (!targets.command.empty()) {
    object["argv"] = targets.command;
    // Another program that sends the notice later runs the command in the same folder.
    std::error_code error;
    object["directory"] = std::filesystem::current_path(error).string();
    DLRUN_TRY(write_file_atomic(folder_ / (stem + std::string(kCommandEnding)),
                                json_read::dump(object), 0600));
  }
  return {};
}

SendReport NoticeQueue::send(const Env& env, SendBy by,
                             const std::function<bool()>& may_start) const {
  SendReport report;
  for (const std::string_view ending : {kWebhookEnding, kCommandEnding}) {
    const bool is_webhook = ending == kWebhookEnding;
    if (!is_webhook && by == SendBy::kWebhooks) continue;
    for (const std::string& name : names_with(ending)) {
      if (!may_start()) return report;
      const auto claimed = folder_ / (name + std::string(kClaimedEnding));
      // If the file is gone, another sender has claimed it.
      if (::rename((folder_ / name).c_str(), claimed.c_str()) != 0) continue;
      Delivery delivery{Outcome::kRefused, "the notice is damaged or cannot be read"};
      const auto text = read_own_file(name + std::string(kClaimedEnding));
      const auto object = text ? json_read::object_of(*text) : std::nullopt;
      const auto words = object ? argv_in(*object) : std::vector<std::string>();
      if (is_expired(name)) {
        delivery.problem = "the notice is older than three days";
      } else if (object && is_webhook) {
        delivery = send_to_webhook(env, read_own_file(kAddressFile).value_or(""),
                                   Notice::of_json(*object));
      } else if (object && !words.empty()) {
        delivery = run_notice_command(env, words, json_read::text(*object, "directory"),
                                      Notice::of_json(*object));
      }
      log_info("a notice was handled", {{"notice", name}, {"problem", delivery.problem}});
      if (!delivery.problem.empty()) report.problem = delivery.problem;
      if (!apply_outcome(folder_ / name, delivery.outcome, report)) break;
    }
  }
  report.waiting = names_with(kWebhookEnding).size() + names_with(kCommandEnding).size();
  if (!needs_address()) remove_address();
  return report;
}

bool NoticeQueue::needs_address() const {
  // Looks for waiting notices first. A notice that another sender claims after this look is found
  // by the second look, for claimed notices. In the other order, both looks could miss the notice,
  // although its sender still has to read the address.
  return !names_with(kWebhookEnding).empty() ||
         !names_with(std::string(kWebhookEnding) + std::string(kClaimedEnding)).empty();
}

void NoticeQueue::remove_address() const {
  const auto address = read_own_file(kAddressFile);
  if (!address || ::unlink((folder_ / kAddressFile).c_str()) != 0) return;
  // Meanwhile, put() may have added a notice, and not written the address because it still existed.
  if (needs_address()) std::ignore = write_file_atomic(folder_ / kAddressFile, *address, 0600);
}

bool NoticeQueue::has_waiting(SendBy by) const {
  return !names_with(kWebhookEnding).empty() ||
         (by == SendBy::kWebhooksAndCommands && !names_with(kCommandEnding).empty());
}

std::vector<QueuedNotice> NoticeQueue::list() const {
  std::map<std::string, QueuedNotice> found;  // by the file's name, which begins with the time
  for (const std::string_view way : {kWebhookEnding, kCommandEnding}) {
    for (const std::string_view state :
         {std::string_view(), kClaimedEnding, kRefusedEnding, kUnconfirmedEnding}) {
      for (const std::string& name : names_with(std::string(way) + std::string(state))) {
        const auto text = read_own_file(name);
        const auto object = text ? json_read::object_of(*text) : std::nullopt;
        found[name] = {std::string(way.substr(1)),
                       state.empty() ? "waiting" : std::string(state.substr(1)),
                       object ? Notice::of_json(*object) : Notice()};
      }
    }
  }
  std::vector<QueuedNotice> notices;
  for (auto& [name, queued] : found) notices.push_back(std::move(queued));
  return notices;
}

}  // namespace dlrun
