// libcurl's functions for the portable dlrun, a static program, which cannot load libraries.
// curl_easy_setopt() stores the options of a transfer, and curl_easy_perform() passes them to the
// program `curl`. The exit codes of curl are libcurl's codes. The settings reach curl through its
// standard input, because other users can read the arguments of a process. curl writes the response
// to a pipe, and the status to its standard output.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/executors/curl_child.h"
#include "launcher/executors/curl_library.h"

namespace dlrun {
namespace {

/// The handle that easy_init() returns: the options that were set, and the result of the newest
/// transfer. Copies the texts that libcurl copies, and stores only pointers to the others.
struct Transfer {
  std::string url, method, user_agent, unix_socket_path;
  std::optional<std::string> proxy;
  const struct curl_slist* headers = nullptr;
  const char* body = nullptr;
  curl_off_t body_bytes = 0, resume_from = 0;
  bool has_body = false, fails_on_error = false, follows = false, is_http11 = false;
  long most_redirections = 0, connect_ms = 0, timeout_ms = 0, low_speed_bytes_per_s = 0,
       low_speed_seconds = 0;
  long redirect_protocols = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  char* message = nullptr;  ///< the caller's buffer, of CURL_ERROR_SIZE bytes
  curl_write_callback write = nullptr;
  void* write_data = nullptr;
  curl_xferinfo_callback progress = nullptr;
  void* progress_data = nullptr;
  curl_opensocket_callback open_socket = nullptr;
  void* open_socket_data = nullptr;
  long status = 0, redirections = 0, connect_status = 0;
};

Transfer& transfer_of(CURL* handle) {
  return *static_cast<Transfer*>(static_cast<void*>(handle));
}

CURLcode set_long(Transfer& to, CURLoption option, long value) {
  // Numbers, as in downloader.cc, because libcurl 7.85 deprecated the names of these options.
  constexpr int kProtocols = CURLOPTTYPE_LONG + 181, kRedirProtocols = CURLOPTTYPE_LONG + 182;
  switch (static_cast<int>(option)) {
    case CURLOPT_FAILONERROR:
      to.fails_on_error = value != 0;
      return CURLE_OK;
    case CURLOPT_FOLLOWLOCATION:
      to.follows = value != 0;
      return CURLE_OK;
    case CURLOPT_MAXREDIRS:
      to.most_redirections = value;
      return CURLE_OK;
    case CURLOPT_CONNECTTIMEOUT:
      to.connect_ms = value * 1000;
      return CURLE_OK;
    case CURLOPT_CONNECTTIMEOUT_MS:
      to.connect_ms = value;
      return CURLE_OK;
    case CURLOPT_TIMEOUT_MS:
      to.timeout_ms = value;
      return CURLE_OK;
    case CURLOPT_LOW_SPEED_LIMIT:
      to.low_speed_bytes_per_s = value;
      return CURLE_OK;
    case CURLOPT_LOW_SPEED_TIME:
      to.low_speed_seconds = value;
      return CURLE_OK;
    case CURLOPT_HTTPGET:
      to.has_body = false;
      return CURLE_OK;
    case CURLOPT_POST:
      to.has_body = value != 0;
      return CURLE_OK;
    case CURLOPT_HTTP_VERSION:
      to.is_http11 = value == static_cast<long>(CURL_HTTP_VERSION_1_1);
      return CURLE_OK;
    case kRedirProtocols:
      to.redirect_protocols = value;
      return CURLE_OK;
    // These options are always in effect: settings_of() allows http and https only, and each
    // transfer has a process and a connection of its own.
    case kProtocols:
    case CURLOPT_NOSIGNAL:
    case CURLOPT_NOPROGRESS:
    case CURLOPT_FRESH_CONNECT:
    case CURLOPT_FORBID_REUSE:
      return CURLE_OK;
    default:
      return CURLE_UNKNOWN_OPTION;
  }
}

CURLcode set_pointer(Transfer& to, CURLoption option, void* value) {
  const char* const text = static_cast<const char*>(value);
  switch (static_cast<int>(option)) {
    case CURLOPT_URL:
      to.url = text;
      return CURLE_OK;
    case CURLOPT_USERAGENT:
      to.user_agent = text;
      return CURLE_OK;
    case CURLOPT_CUSTOMREQUEST:
      to.method = text;
      return CURLE_OK;
    case CURLOPT_UNIX_SOCKET_PATH:
      to.unix_socket_path = text;
      return CURLE_OK;
    case CURLOPT_PROXY:
      to.proxy = text;
      return CURLE_OK;
    case CURLOPT_HTTPHEADER:
      to.headers = static_cast<const struct curl_slist*>(value);
      return CURLE_OK;
    case CURLOPT_POSTFIELDS:
      to.body = text;
      return CURLE_OK;
    case CURLOPT_ERRORBUFFER:
      to.message = static_cast<char*>(value);
      return CURLE_OK;
    case CURLOPT_WRITEDATA:
      to.write_data = value;
      return CURLE_OK;
    case CURLOPT_XFERINFODATA:
      to.progress_data = value;
      return CURLE_OK;
    case CURLOPT_OPENSOCKETDATA:
      to.open_socket_data = value;
      return CURLE_OK;
    default:
      return CURLE_UNKNOWN_OPTION;
  }
}

CURLcode set_option(CURL* handle, CURLoption option, ...) {
  Transfer& to = transfer_of(handle);
  std::va_list arguments;
  va_start(arguments, option);
  CURLcode code = CURLE_UNKNOWN_OPTION;
  const int kind = static_cast<int>(option) / 10'000 * 10'000;
  if (option == CURLOPT_WRITEFUNCTION) {
    to.write = va_arg(arguments, curl_write_callback);
    code = CURLE_OK;
  } else if (option == CURLOPT_XFERINFOFUNCTION) {
    to.progress = va_arg(arguments, curl_xferinfo_callback);
    code = CURLE_OK;
  } else if (option == CURLOPT_OPENSOCKETFUNCTION) {
    to.open_socket = va_arg(arguments, curl_opensocket_callback);
    code = CURLE_OK;
  } else if (option == CURLOPT_SOCKOPTFUNCTION) {
    code = CURLE_OK;  // curl opens its own socket
  } else if (option == CURLOPT_POSTFIELDSIZE_LARGE) {
    to.body_bytes = va_arg(arguments, curl_off_t);
    code = CURLE_OK;
  } else if (option == CURLOPT_RESUME_FROM_LARGE) {
    to.resume_from = va_arg(arguments, curl_off_t);
    code = CURLE_OK;
  } else if (kind == CURLOPTTYPE_LONG) {
    code = set_long(to, option, va_arg(arguments, long));
  } else if (kind == CURLOPTTYPE_OBJECTPOINT) {
    code = set_pointer(to, option, va_arg(arguments, void*));
  }
  va_end(arguments);
  return code;
}

CURLcode get_info(CURL* handle, CURLINFO what, ...) {
  const Transfer& from = transfer_of(handle);
  std::va_list arguments;
  va_start(arguments, what);
  CURLcode code = CURLE_OK;
  if (what == CURLINFO_RESPONSE_CODE) {
    *va_arg(arguments, long*) = from.status;
  } else if (what == CURLINFO_REDIRECT_COUNT) {
    *va_arg(arguments, long*) = from.redirections;
  } else if (what == CURLINFO_HTTP_CONNECTCODE) {
    *va_arg(arguments, long*) = from.connect_status;
  } else if (what == CURLINFO_CONTENT_LENGTH_DOWNLOAD_T) {
    *va_arg(arguments, curl_off_t*) = -1;  // curl reports the length only at the end
  } else {
    code = CURLE_UNKNOWN_OPTION;
  }
  va_end(arguments);
  return code;
}

/// Returns the text as a quoted value of curl's settings.
std::string quoted_setting(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n' || c == '\r' || c == '\t') {
      quoted += '\\';
      quoted += c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string seconds_setting(std::string_view name, long milliseconds) {
  return milliseconds > 0
             ? fmt::format("{} = {}.{:03}\n", name, milliseconds / 1000, milliseconds % 1000)
             : std::string();
}

/// Returns curl's settings for the transfer. curl 7.61 (RHEL 8) knows all these settings.
std::string settings_of(const Transfer& transfer) {
  std::string text = "silent\nshow-error\nno-buffer\ngloboff\nproto = \"=http,https\"\n";
  text += fmt::format("output = \"/proc/self/fd/{}\"\n", kCurlResponseFd);
  text += "write-out = \"%{http_code} %{num_redirects} %{http_connect}\"\n";
  text += "url = " + quoted_setting(transfer.url) + "\n";
  if (!transfer.method.empty()) text += "request = " + quoted_setting(transfer.method) + "\n";
  if (!transfer.user_agent.empty())
    text += "user-agent = " + quoted_setting(transfer.user_agent) + "\n";
  if (!transfer.unix_socket_path.empty())
    text += "unix-socket = " + quoted_setting(transfer.unix_socket_path) + "\n";
  if (transfer.proxy && transfer.proxy->empty()) text += "noproxy = \"*\"\n";
  // is_server_accepted() checks 127.0.0.1 for localhost, so curl must not choose ::1.
  if (transfer.open_socket != nullptr && transfer.url.starts_with("http://localhost"))
    text += "ipv4\n";
  if (transfer.is_http11) text += "http1.1\n";
  if (transfer.fails_on_error) text += "fail\n";
  if (transfer.follows)
    text += fmt::format("location\nmax-redirs = {}\nproto-redir = \"={}\"\n",
                        transfer.most_redirections,
                        transfer.redirect_protocols == CURLPROTO_HTTPS ? "https" : "http,https");
  text += seconds_setting("connect-timeout", transfer.connect_ms);
  text += seconds_setting("max-time", transfer.timeout_ms);
  if (transfer.low_speed_seconds > 0)
    text += fmt::format("speed-limit = {}\nspeed-time = {}\n", transfer.low_speed_bytes_per_s,
                        transfer.low_speed_seconds);
  if (transfer.resume_from > 0) text += fmt::format("continue-at = {}\n", transfer.resume_from);
  for (const auto* line = transfer.headers; line != nullptr; line = line->next)
    text += "header = " + quoted_setting(line->data) + "\n";
  if (transfer.has_body) text += fmt::format("data-binary = \"@/proc/self/fd/{}\"\n", kCurlBodyFd);
  return text;
}

/// Returns the address of "http://127.0.0.1:6820/...", "http://localhost:..." or
/// "http://[::1]:...". parse_rest_url() accepts no other addresses with http://.
std::optional<sockaddr_storage> loopback_address(std::string_view url) {
  constexpr std::string_view kHttp = "http://";
  if (!url.starts_with(kHttp)) return std::nullopt;
  url.remove_prefix(kHttp.size());
  const std::string_view authority = url.substr(0, url.find('/'));
  const bool is_v6 = authority.starts_with("[::1]");
  const std::string_view without_v6_host = is_v6 ? authority.substr(5) : authority;
  const auto colon = without_v6_host.find(':');
  const auto port = colon == without_v6_host.npos ? std::optional<std::int64_t>(80)
                                                  : parse_int(without_v6_host.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  sockaddr_storage storage{};
  if (is_v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    v6.sin6_port = htons(static_cast<std::uint16_t>(*port));
    std::memcpy(&storage, &v6, sizeof v6);
    return storage;
  }
  const std::string host(without_v6_host.substr(0, colon));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<std::uint16_t>(*port));
  if (::inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &v4.sin_addr) != 1)
    return std::nullopt;
  std::memcpy(&storage, &v4, sizeof v4);
  return storage;
}

/// Connects to the server with the function of CURLOPT_OPENSOCKETFUNCTION, which also checks who
/// listens at the address. Sends nothing, and closes this connection. The program curl later opens
/// a connection of its own. Between these two connections, another user could start to listen at
/// the address only if the server ends at that moment.
bool is_server_accepted(const Transfer& transfer) {
  if (transfer.open_socket == nullptr) return true;
  const auto address = loopback_address(transfer.url);
  if (!address) return false;
  // struct curl_sockaddr ends with a sockaddr that is too short for IPv6.
  alignas(struct curl_sockaddr)
      std::array<std::byte, sizeof(struct curl_sockaddr) + sizeof(sockaddr_storage)>
          buffer{};
  auto* const peer_address = reinterpret_cast<struct curl_sockaddr*>(buffer.data());
  peer_address->family = address->ss_family;
  peer_address->socktype = SOCK_STREAM;
  peer_address->protocol = IPPROTO_TCP;
  peer_address->addrlen =
      address->ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(buffer.data() + offsetof(struct curl_sockaddr, addr), &*address,
              peer_address->addrlen);
  const UniqueFd socket(
      transfer.open_socket(transfer.open_socket_data, CURLSOCKTYPE_IPCXN, peer_address));
  return socket.is_open();
}

/// Copies curl's message, without its "curl: (7) ", to the buffer of CURLOPT_ERRORBUFFER.
void copy_message(const Transfer& transfer, std::string_view errors) {
  if (transfer.message == nullptr) return;
  const auto end = errors.find('\n');
  std::string_view line = trim(errors.substr(0, end));
  if (const auto close = line.find(") "); line.starts_with("curl: (") && close != line.npos)
    line.remove_prefix(close + 2);
  const std::size_t size = std::min(line.size(), static_cast<std::size_t>(CURL_ERROR_SIZE - 1));
  std::memcpy(transfer.message, line.data(), size);
  transfer.message[size] = '\0';
}

CURLcode perform_transfer(CURL* handle) {
  Transfer& transfer = transfer_of(handle);
  transfer.status = transfer.redirections = transfer.connect_status = 0;
  if (!is_server_accepted(transfer)) return CURLE_COULDNT_CONNECT;
  CurlChild child;
  const std::string_view body(
      transfer.has_body ? transfer.body : "",
      transfer.has_body ? static_cast<std::size_t>(transfer.body_bytes) : 0);
  if (!child.start(settings_of(transfer), body)) return CURLE_FAILED_INIT;
  const auto end = child.read_to_end(
      [&](char* bytes, std::size_t size) {
        return transfer.write(bytes, 1, size, transfer.write_data) == size;
      },
      [&] {
        return transfer.progress == nullptr ||
               transfer.progress(transfer.progress_data, 0, 0, 0, 0) == 0;
      });
  if (end == CurlChild::Outcome::kNotTaken) return CURLE_WRITE_ERROR;
  if (end == CurlChild::Outcome::kStopped) return CURLE_ABORTED_BY_CALLBACK;
  // If a signal has ended curl, the code is that of a stopped transfer. The text of meaning_of()
  // for this code mentions both causes.
  const int code = child.wait().value_or(static_cast<int>(CURLE_ABORTED_BY_CALLBACK));
  const auto numbers = split(child.output(), ' ');
  if (numbers.size() == 3) {
    transfer.status = static_cast<long>(parse_int(numbers[0]).value_or(0));
    transfer.redirections = static_cast<long>(parse_int(numbers[1]).value_or(0));
    transfer.connect_status = static_cast<long>(parse_int(numbers[2]).value_or(0));
  }
  if (code != 0) copy_message(transfer, child.errors());
  return static_cast<CURLcode>(code);
}

const char* meaning_of(CURLcode code) {
  switch (static_cast<int>(code)) {
    case CURLE_OK:
      return "no error";
    case CURLE_FAILED_INIT:
      return "the program curl could not be started";
    case CURLE_COULDNT_RESOLVE_PROXY:
      return "the name of the proxy cannot be resolved";
    case CURLE_COULDNT_RESOLVE_HOST:
      return "the name of the host cannot be resolved";
    case CURLE_COULDNT_CONNECT:
      return "the host cannot be reached";
    case CURLE_HTTP_RETURNED_ERROR:
      return "the server answers with an error";
    case CURLE_OPERATION_TIMEDOUT:
      return "there was no answer in time";
    case CURLE_ABORTED_BY_CALLBACK:
      return "the transfer was stopped, or curl was ended by a signal";
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return "the host closed the connection";
    default:
      return "curl failed";
  }
}

CURL* new_transfer() {
  return static_cast<CURL*>(static_cast<void*>(new Transfer));
}
void delete_transfer(CURL* handle) {
  delete &transfer_of(handle);
}

struct curl_slist* append_line(struct curl_slist* list, const char* line) {
  auto* const last = new curl_slist{::strdup(line), nullptr};
  if (list == nullptr) return last;
  struct curl_slist* at = list;
  while (at->next != nullptr) at = at->next;
  at->next = last;
  return list;
}

void free_lines(struct curl_slist* list) {
  while (list != nullptr) {
    struct curl_slist* const next = list->next;
    std::free(list->data);
    delete list;
    list = next;
  }
}

}  // namespace

Result<CurlLibrary> CurlLibrary::load(std::string_view message_start,
                                      std::string_view message_end) {
  if (!find_program("curl", Env::of_process()))
    return fail(Errc::kNotFound,
                "{} the program curl, which is not in PATH here (its package is curl); {}",
                message_start, message_end);
  CurlLibrary curl;
  curl.global_init = [](long) { return CURLE_OK; };
  curl.easy_init = new_transfer;
  curl.easy_cleanup = delete_transfer;
  curl.easy_setopt = set_option;
  curl.easy_getinfo = get_info;
  curl.easy_perform = perform_transfer;
  curl.easy_strerror = meaning_of;
  curl.slist_append = append_line;
  curl.slist_free_all = free_lines;
  return curl;
}

}  // namespace dlrun
