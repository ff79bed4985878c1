#pragma once
// A notice to people about a run (notify): its content, its text, and the message for a webhook.
// Lead, the agent that starts and watches the ranks, makes notices. Lead's helper process sends
// them, or later a command of dlrun does.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace dlrun {

/// The values of notify.on: the occasions of a notice.
inline constexpr std::array<std::string_view, 6> kNoticeOccasions{
    "started", "completed", "failed", "cancelled", "restarted", "hang"};
/// The occasions if notify.on is not given.
inline constexpr std::array<std::string_view, 3> kDefaultOccasions{"failed", "hang", "completed"};

/// A notice. Its texts may come from a program of the user, and senders escape them.
struct Notice {
  std::string occasion{};  ///< one of kNoticeOccasions
  std::string run{};       ///< the name of the run's directory
  std::string job{}, cluster{};
  std::string time{};  ///< UTC
  std::int64_t attempt = 0;
  std::string message{};    ///< how the run ended, why it starts again, or where its ranks run
  std::string component{};  ///< the component of the rank; empty: the job has one program
  std::optional<std::int64_t> rank{};     ///< the rank that the notice is about; nullopt: none
  std::string node{};                     ///< the node of the rank
  std::string progress{};                 ///< "step 120 of 5000, loss 0.5"; empty: unknown
  std::vector<std::string> last_words{};  ///< the last lines of the rank's output

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  /// Reads an object made by to_json(). A field that is missing or has the wrong type is empty.
  [[nodiscard]] static Notice of_json(const nlohmann::ordered_json& object);

  /// Returns the notice in one line: "mnist-4711 failed".
  [[nodiscard]] std::string subject() const;
  /// Returns the notice in several lines, which are printable.
  [[nodiscard]] std::string text() const;
};

/// Returns the message in the form of the service at the address: {"text": ...} for Slack,
/// Mattermost, Rocket.Chat and Teams, {"content": ...} for Discord, and an object with all fields
/// of the notice for any other address. A path that ends with "/slack" selects Slack's form. A path
/// with "/hooks/" selects the form of Mattermost and Rocket.Chat. In the messages to these
/// services, "@all" and other mentions in a program's text notify nobody.
[[nodiscard]] std::string webhook_body(std::string_view url, const Notice& notice);

/// Returns the words of notify.command with {subject}, {run}, {job} and {event} replaced.
[[nodiscard]] std::vector<std::string> notice_command(const std::vector<std::string>& words,
                                                      const Notice& notice);

}  // namespace dlrun
