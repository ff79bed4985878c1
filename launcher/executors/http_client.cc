#include "launcher/executors/http_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <thread>

#include "common/files.h"
#include "common/log.h"
#include "common/text.h"
#include "launcher/executors/curl_library.h"

namespace dlrun {
namespace {

constexpr std::chrono::milliseconds kConnectTimeout{10'000};
/// Pauses before a GET is sent again after a lost connection. Other requests are not sent again.
/// (slurmrestd 22.05 resets one connection in some thousands.)
constexpr std::array kRetryPauses{std::chrono::milliseconds{20}, std::chrono::milliseconds{200},
                                  std::chrono::milliseconds{1000}};

/// A response, which libcurl delivers in pieces.
struct PartialResponse {
  HttpResponse response;
  std::size_t max_body_bytes = 0;
  bool is_too_large = false;
};

/// Appends bytes to the body of a PartialResponse. Ends the transfer if the body becomes too large.
std::size_t append_to_body(char* bytes, std::size_t size, std::size_t count, void* into) {
  PartialResponse& partial = *static_cast<PartialResponse*>(into);
  std::string& body = partial.response.body;
  partial.is_too_large = body.size() + size * count > partial.max_body_bytes;
  if (partial.is_too_large) return 0;  // libcurl then fails with CURLE_WRITE_ERROR
  body.append(bytes, size * count);
  return size * count;
}

/// Connects a new socket to an address of this machine. Waits for at most kConnectTimeout; such an
/// address usually answers immediately. Returns a closed socket on failure.
[[nodiscard]] UniqueFd connected_socket(const struct curl_sockaddr& address) {
  UniqueFd socket(
      ::socket(address.family, address.socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.protocol));
  if (!socket.is_open()) return socket;
  if (::connect(socket.get(), &address.addr, address.addrlen) == 0) return socket;
  pollfd writable{socket.get(), POLLOUT, 0};
  int error = errno;
  socklen_t size = sizeof error;
  const bool has_answer = error == EINPROGRESS &&
                          ::poll(&writable, 1, static_cast<int>(kConnectTimeout.count())) == 1 &&
                          ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0;
  if (!has_answer || error != 0) socket.reset();
  return socket;
}

[[nodiscard]] bool is_connection_lost(CURLcode code) {
  return code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING ||
         code == CURLE_PARTIAL_FILE;
}

}  // namespace

struct HttpClient::State {
  CurlLibrary curl;
  CURL* handle = nullptr;
  RestAddress address;
  std::array<char, CURL_ERROR_SIZE> curl_message{};
  CheckPeer check_peer;
  std::optional<Error> peer_error;  ///< the error of check_peer during the last request

  /// Opens and connects a socket for libcurl, and checks the other end. If libcurl opened the
  /// socket itself, only libcurl 7.80 and later would let dlrun check it before anything is sent.
  static curl_socket_t open_checked(void* state, curlsocktype, struct curl_sockaddr* peer_address) {
    State& self = *static_cast<State*>(state);
    UniqueFd socket = connected_socket(*peer_address);
    if (!socket.is_open()) return CURL_SOCKET_BAD;
    if (auto checked = self.check_peer(socket.get()); !checked) {
      self.peer_error = std::move(checked.error());
      return CURL_SOCKET_BAD;
    }
    return socket.release();
  }
  static int tell_connected(void*, curl_socket_t, curlsocktype) {
    return CURL_SOCKOPT_ALREADY_CONNECTED;
  }

  /// Sets all options of a request whose response goes to `partial`. The arguments must live as
  /// long as the request.
  [[nodiscard]] CURLcode set_options(const HttpRequest& request, const std::string& url,
                                     struct curl_slist* headers, PartialResponse* partial) {
    CURLcode code = CURLE_OK;
    const auto set = [&](CURLoption option, auto value) {
      if (code == CURLE_OK) code = curl.easy_setopt(handle, option, value);
    };
    set(CURLOPT_ERRORBUFFER, curl_message.data());
    set(CURLOPT_URL, url.c_str());
    if (!address.socket.empty()) set(CURLOPT_UNIX_SOCKET_PATH, address.socket.c_str());
    if (check_peer) {
      set(CURLOPT_OPENSOCKETFUNCTION, &open_checked);
      set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
      set(CURLOPT_SOCKOPTFUNCTION, &tell_connected);
    }
    // The token must reach only the configured server: no redirection, no proxy for http://.
    set(CURLOPT_FOLLOWLOCATION, 0L);
    if (address.base.starts_with("http://")) set(CURLOPT_PROXY, "");
    // On a reused connection that ends without a response, libcurl sends the request again by
    // itself. A second request could submit a job twice.
    set(CURLOPT_FRESH_CONNECT, 1L);
    set(CURLOPT_FORBID_REUSE, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(kConnectTimeout.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_WRITEFUNCTION, &append_to_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(partial));
    set(CURLOPT_HTTPGET, 1L);
    if (!request.body.empty()) {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(CURLOPT_POSTFIELDS, request.body.data());
    }
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    return code;
  }

  ~State() {
    if (handle != nullptr) curl.easy_cleanup(handle);
  }
};

HttpClient::HttpClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpClient> HttpClient::to(const RestAddress& address, CheckPeer check_peer) {
  // The arguments are the start and the end of the message about a missing libcurl.
  DLRUN_TRY_ASSIGN(auto curl, CurlLibrary::load("slurmrestd is asked through",
                                                "submit.via: sbatch works without it"));
  auto state = std::make_unique<State>();
  state->curl = curl;
  state->address = address;
  state->check_peer = std::move(check_peer);
  state->handle = curl.easy_init();
  if (state->handle == nullptr) return fail(Errc::kInternal, "libcurl could not be set up");
  return HttpClient(std::move(state));
}

Result<HttpResponse> HttpClient::send(const HttpRequest& request) {
  const CurlLibrary& curl = state_->curl;
  CURL* const handle = state_->handle;
  PartialResponse partial;
  partial.max_body_bytes = request.max_response_bytes;
  HttpResponse& response = partial.response;
  const std::string url = state_->address.base + request.path;
  struct curl_slist* headers = nullptr;
  const auto add_header = [&](const std::string& line) {
    headers = curl.slist_append(headers, line.c_str());
  };
  for (const auto& header : request.headers) add_header(header);
  add_header("Accept: application/json");
  // slurmrestd does not answer "100-continue", for which curl would wait a second.
  add_header("Expect:");
  if (!request.body.empty()) add_header("Content-Type: application/json");

  state_->curl_message.front() = '\0';
  state_->peer_error.reset();
  CURLcode code = state_->set_options(request, url, headers, &partial);
  int tries = 1;
  const auto start = std::chrono::steady_clock::now();
  if (code == CURLE_OK) code = curl.easy_perform(handle);
  if (request.method == "GET") {
    for (auto pause = kRetryPauses.begin(); pause != kRetryPauses.end() && is_connection_lost(code);
         ++pause) {
      std::this_thread::sleep_for(*pause);
      response.body.clear();
      ++tries;
      code = curl.easy_perform(handle);
    }
  }
  if (code == CURLE_OK) code = curl.easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &response.status);
  curl.easy_setopt(handle, CURLOPT_HTTPHEADER, nullptr);
  curl.slist_free_all(headers);
  // The log gets only the meaning of the error code: libcurl's message may show a proxy's password.
  log_info("an HTTP request has ended",
           {{"method", request.method},
            {"url", url},
            {"status", response.status},
            {"tries", tries},
            {"seconds", std::chrono::steady_clock::now() - start},
            {"error", code == CURLE_OK ? "" : curl.easy_strerror(code)}});
  if (code != CURLE_OK && state_->peer_error) return tl::unexpected(*state_->peer_error);
  if (partial.is_too_large)
    return fail(Errc::kUnavailable,
                "the answer to {} {} is larger than {} MiB; dlrun has stopped reading. Check "
                "whether another server listens at this address, and read slurmrestd's log",
                request.method, request.path, request.max_response_bytes >> 20U);
  if (code != CURLE_OK) {
    const std::string message = state_->curl_message.front() != '\0' ? state_->curl_message.data()
                                                                     : curl.easy_strerror(code);
    return fail(Errc::kUnavailable, "{}", printable(trim(message)));
  }
  return std::move(response);
}

}  // namespace dlrun
