#include "common/curl_process.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/log.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestAddressBytes = 2048;
constexpr std::size_t kLongestReplyBytes = 1U << 20U;
constexpr std::chrono::seconds kConnectLimit{5};
/// Time beyond curl's own limit after which dlrun kills curl.
constexpr std::chrono::seconds kKillAfter{1};
// Two exit codes of curl.
constexpr int kCurlReplyTooLarge = 63;  ///< the reply is longer than max-filesize
constexpr int kCurlTimedOut = 28;       ///< the time limit has expired

/// Returns host and port of the address, with a user name if there is one.
std::string_view authority_of(std::string_view url) {
  const auto begin = url.find("://");
  if (begin == std::string_view::npos) return {};
  const auto rest = url.substr(begin + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

/// Returns the text as a quoted value for curl's settings.
std::string quoted_for_curl(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        quoted += '\\';
        quoted += c;
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        quoted += c;
    }
  }
  return quoted + "\"";
}

/// Returns the meaning of curl's exit code. dlrun does not show curl's own messages, because they
/// may contain the address.
std::string problem_of(int exit_code, std::chrono::seconds limit) {
  switch (exit_code) {
    case 5:
      return "the name of the proxy cannot be resolved";
    case 6:
      return "the name of the host cannot be resolved";
    case 7:
      return "the host, or the proxy in front of it, cannot be reached";
    case kCurlTimedOut:
      if (limit > kConnectLimit)
        return fmt::format("there was no connection within {} s, or no reply within {} s",
                           kConnectLimit.count(), limit.count());
      return fmt::format("there was no reply within {} s", limit.count());
    case 35:
    case 51:
    case 58:
    case 60:
    case 77:
      return "the encrypted connection (TLS) failed";
    case 52:
      return "the host closed the connection without a reply";
    case 56:  // also if the proxy answers CONNECT with an error
      return "the connection ended before the reply, or the proxy refused the connection";
    default:
      return fmt::format("curl ended with code {}", exit_code);
  }
}

}  // namespace

std::string address_problem(std::string_view url) {
  if (!url.starts_with("https://") && !url.starts_with("http://"))
    return "the address does not start with https:// or http://";
  if (url.size() > kLongestAddressBytes)
    return fmt::format("the address is longer than {} bytes", kLongestAddressBytes);
  const bool is_plain = std::all_of(url.begin(), url.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '<' && c != '>';
  });
  if (!is_plain)
    return R"(the address has a space, a control character, one of " \ < > or a character that is )"
           "not ASCII";
  const auto authority = authority_of(url);
  if (authority.empty() || authority.starts_with(':')) return "the address has no host";
  if (authority.find('@') != std::string_view::npos)
    return "the address has a user name; remove everything between :// and the host";
  const std::string host = lower_case(authority);
  if (host.starts_with("metadata.google."))
    return "the address is the metadata server of a cloud, which offers the machine's credentials";
  for (const std::string_view local : {"169.254.", "[fe80:", "[::ffff:169.254.", "[::ffff:a9fe:"}) {
    if (host.starts_with(local)) return "the address is link-local";
  }
  return {};
}

std::string curl_config(const CurlRequest& request, std::chrono::seconds limit) {
  std::string text = "silent\ngloboff\nproto = \"=http,https\"\n";
  text += fmt::format("connect-timeout = {}\nmax-time = {}\nmax-filesize = {}\n",
                      std::min(kConnectLimit, limit).count(), limit.count(), kLongestReplyBytes);
  text += "request = " + quoted_for_curl(request.method) + "\n";
  text += "user-agent = \"dlrun\"\n";
  for (const std::string& header : request.headers)
    text += "header = " + quoted_for_curl(header) + "\n";
  if (!request.body.empty()) {
    text += "header = \"Content-Type: application/json\"\n";
    // Without this line, old versions of curl wait up to a second before they send a body of more
    // than 1 KiB.
    text += "header = \"Expect:\"\n";
    text += "data-raw = " + quoted_for_curl(request.body) + "\n";
  }
  text += "write-out = \"\\n%{http_code} %{size_upload}\"\n";
  return text + "url = " + quoted_for_curl(request.url) + "\n";
}

Result<CurlReply> send_by_curl(const Env& env, const CurlRequest& request,
                               std::chrono::seconds limit) {
  hide_in_log(request.url);
  if (const auto why = address_problem(request.url); !why.empty())
    return fail(Errc::kInvalid, "{}", why);
  if (quoted_for_curl(request.body).size() > kLargestCurlBody)
    return fail(Errc::kInvalid, "the request has more than {} bytes", kLargestCurlBody);
  for (const std::string& header : request.headers) {
    if (std::any_of(header.begin(), header.end(), is_control))
      return fail(Errc::kInvalid, "a header of the request has a control character");
  }
  Command command;
  command.argv = {"curl", "-q", "--config", "-"};
  command.env = env;
  command.stdin_text = curl_config(request, limit);
  command.timeout = limit + kKillAfter;
  command.output_limit_bytes = kLongestReplyBytes + 4096;
  auto finished = run_command(command);
  CurlReply reply;
  if (!finished) {
    if (finished.error().code != Errc::kTimeout) return tl::unexpected<Error>(finished.error());
    reply.request_may_have_arrived = true;
    reply.problem = problem_of(kCurlTimedOut, limit);
    return reply;
  }
  const auto end = finished->out.rfind('\n');
  if (end == std::string::npos) {
    reply.problem = problem_of(finished->exit_code, limit);
    return reply;
  }
  const std::string last_line = finished->out.substr(end + 1);  // "write-out" of curl_config()
  const auto fields = split(last_line, ' ');
  reply.body = finished->out.substr(0, end);
  reply.status = static_cast<int>(parse_int(fields[0]).value_or(0));
  const bool has_sent = fields.size() == 2 && parse_double(fields[1]).value_or(0) > 0;
  if (finished->exit_code == kCurlReplyTooLarge)
    reply.problem = fmt::format("the reply has more than {} bytes", kLongestReplyBytes);
  if (reply.status == 0) {
    reply.request_may_have_arrived = has_sent;
    reply.problem = problem_of(finished->exit_code, limit);
  }
  return reply;
}

}  // namespace dlrun
