#include "common/notice.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/json_read.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestMessageBytes = 1000;
constexpr std::size_t kMostLastLines = 5;  ///< lines of Notice::last_words
/// Limit in bytes for a message to Discord, which refuses more than 2000 characters.
constexpr std::size_t kLongestForDiscord = 1900;

/// Returns the host of the address in lower case, without the port.
std::string host_of(std::string_view url) {
  const auto begin = url.find("://");
  if (begin == std::string_view::npos) return {};
  auto rest = url.substr(begin + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  return lower_case(rest.substr(0, rest.find(':')));
}

std::string path_of(std::string_view url) {
  const auto begin = url.find("://");
  if (begin == std::string_view::npos) return {};
  const auto rest = url.substr(begin + 3);
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos) return "/";
  const auto path = rest.substr(slash);
  return std::string(path.substr(0, path.find_first_of("?#")));
}

/// Returns true if the host is the domain, or is below the domain.
bool is_in_domain(const std::string& host, std::string_view domain) {
  return host == domain || host.ends_with(fmt::format(".{}", domain));
}

/// The form of a webhook's messages. kText: {"text": ...}, for Mattermost, Rocket.Chat and Teams.
/// kOther: an object with all fields of the notice.
enum class MessageForm { kText, kSlack, kDiscord, kOther };

MessageForm form_of(std::string_view url) {
  const std::string host = host_of(url), path = path_of(url);
  if (is_in_domain(host, "slack.com") || path.ends_with("/slack")) return MessageForm::kSlack;
  if (is_in_domain(host, "discord.com") || is_in_domain(host, "discordapp.com"))
    return MessageForm::kDiscord;
  if (is_in_domain(host, "webhook.office.com") || is_in_domain(host, "outlook.office.com"))
    return MessageForm::kText;
  // Mattermost and Rocket.Chat run on hosts of any name and share this path.
  return path.find("/hooks/") != std::string::npos ? MessageForm::kText : MessageForm::kOther;
}

/// Escapes text as Slack requires, so that "<!channel>" in it addresses nobody.
std::string for_slack(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

/// Puts the text into a block of code, where "@all" addresses nobody. Replaces the character that
/// could end the block.
std::string as_code(std::string text) {
  std::replace(text.begin(), text.end(), '`', '\'');
  return "```\n" + text + "```";
}

/// Returns the beginning of the text, at most this number of bytes, escaped so that it is one line.
std::string one_line(std::string_view text, std::size_t bytes) {
  return printable(cut_text(text, bytes));
}

/// Returns the words that follow the run's name in the subject: "failed" for the occasion "failed"
/// and for an unknown one.
std::string_view words_about(const std::string& occasion) {
  if (occasion == "restarted") return "starts again";
  if (occasion == "hang") return "hung";
  if (occasion == "cancelled") return "was cancelled";
  if (occasion == "started") return "has started";
  if (occasion == "completed") return "has completed";
  return "failed";
}

}  // namespace

nlohmann::ordered_json Notice::to_json() const {
  nlohmann::ordered_json object{{"event", occasion},  {"run", run},   {"job", job},
                                {"cluster", cluster}, {"time", time}, {"attempt", attempt},
                                {"message", message}};
  if (!component.empty()) object["component"] = component;
  if (rank) object["rank"] = *rank;
  if (!node.empty()) object["node"] = node;
  if (!progress.empty()) object["progress"] = progress;
  if (!last_words.empty()) object["last_words"] = last_words;
  return object;
}

Notice Notice::of_json(const nlohmann::ordered_json& object) {
  Notice notice;
  notice.occasion = json_read::text(object, "event");
  notice.run = json_read::text(object, "run");
  notice.job = json_read::text(object, "job");
  notice.cluster = json_read::text(object, "cluster");
  notice.time = json_read::text(object, "time");
  notice.attempt = json_read::integer(object, "attempt").value_or(0);
  notice.message = json_read::text(object, "message");
  notice.component = json_read::text(object, "component");
  notice.rank = json_read::integer(object, "rank");
  notice.node = json_read::text(object, "node");
  notice.progress = json_read::text(object, "progress");
  const auto words = object.is_object() ? object.find("last_words") : object.end();
  if (object.is_object() && words != object.end() && words->is_array()) {
    for (const auto& line : *words) {
      if (line.is_string() && notice.last_words.size() < kMostLastLines)
        notice.last_words.push_back(line.get<std::string>());
    }
  }
  return notice;
}

std::string Notice::subject() const {
  return fmt::format("{} {}", one_line(run, 200), words_about(occasion));
}

std::string Notice::text() const {
  std::string lines = fmt::format("dlrun: run {}", subject());
  if (!job.empty()) {
    lines += fmt::format(" (job {}{}{})", one_line(job, 100), cluster.empty() ? "" : " on ",
                         one_line(cluster, 100));
  }
  lines += "\n";
  if (!message.empty()) lines += one_line(message, kLongestMessageBytes) + "\n";
  if (rank) {
    lines += fmt::format("Rank {}", *rank);
    if (!component.empty()) lines += " of component " + one_line(component, 100);
    if (!node.empty()) lines += " on " + one_line(node, 100);
    lines += last_words.empty() ? "\n" : " printed last:\n";
  }
  for (const std::string& line : last_words) lines += "  " + one_line(line, 200) + "\n";
  if (!progress.empty()) lines += "Progress: " + one_line(progress, 200) + "\n";
  return lines + fmt::format("More: dlrun status {}\n", one_line(run, 200));
}

std::string webhook_body(std::string_view url, const Notice& notice) {
  nlohmann::ordered_json body;
  switch (form_of(url)) {
    case MessageForm::kSlack:
      body = {{"text", for_slack(as_code(notice.text()))}};
      break;
    case MessageForm::kText:
      body = {{"text", as_code(notice.text())}};
      break;
    case MessageForm::kDiscord:
      body = {{"content", as_code(cut_text(notice.text(), kLongestForDiscord))},
              {"allowed_mentions", {{"parse", nlohmann::ordered_json::array()}}}};
      break;
    case MessageForm::kOther:
      body = notice.to_json();
      body["subject"] = notice.subject();
      body["text"] = notice.text();
  }
  return json_read::dump(body);
}

std::vector<std::string> notice_command(const std::vector<std::string>& words,
                                        const Notice& notice) {
  const std::array<std::pair<std::string_view, std::string>, 4> fields{
      {{"{subject}", notice.subject()},
       {"{run}", one_line(notice.run, 200)},
       {"{job}", one_line(notice.job, 100)},
       {"{event}", one_line(notice.occasion, 20)}}};
  std::vector<std::string> argv;
  for (const std::string& word : words) {
    std::string made;
    for (std::size_t at = 0; at < word.size();) {
      const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) {
        return std::string_view(word).substr(at).starts_with(field.first);
      });
      if (found == fields.end()) {
        made += word[at++];
        continue;
      }
      made += found->second;
      at += found->first.size();
    }
    argv.push_back(std::move(made));
  }
  return argv;
}

}  // namespace dlrun
