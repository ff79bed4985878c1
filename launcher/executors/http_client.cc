#include "launcher/executors/http_client.h"

#include <array>
#include <thread>

#include "common/log.h"
#include "common/text.h"
#include "launcher/executors/curl_library.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestAnswer = 256U << 20U;
constexpr std::chrono::milliseconds kConnectTimeout{10'000};
/// Pauses before a request is sent again after a lost connection. (slurmrestd 22.05 resets one
/// connection in some thousands.)
constexpr std::array kPausesOfTries{std::chrono::milliseconds{20}, std::chrono::milliseconds{200},
                                    std::chrono::milliseconds{1000}};

std::size_t append(char* bytes, std::size_t size, std::size_t count, void* into) {
  std::string& body = *static_cast<std::string*>(into);
  if (body.size() + size * count > kLargestAnswer) return 0;
  body.append(bytes, size * count);
  return size * count;
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

  /// Sets all options of a request whose response goes to `response`. The arguments must live as
  /// long as the request.
  [[nodiscard]] CURLcode set_options(const HttpRequest& request, const std::string& url,
                                     struct curl_slist* headers, HttpResponse* response) {
    CURLcode code = CURLE_OK;
    const auto set = [&](CURLoption option, auto value) {
      if (code == CURLE_OK) code = curl.easy_setopt(handle, option, value);
    };
    set(CURLOPT_ERRORBUFFER, curl_message.data());
    set(CURLOPT_URL, url.c_str());
    if (!address.socket.empty()) set(CURLOPT_UNIX_SOCKET_PATH, address.socket.c_str());
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
    set(CURLOPT_WRITEFUNCTION, &append);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&response->body));
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

Result<HttpClient> HttpClient::to(const RestAddress& address) {
  DLRUN_TRY_ASSIGN(
      auto curl, CurlLibrary::load("slurmrestd is asked through", "submit.via: sbatch needs none"));
  auto state = std::make_unique<State>();
  state->curl = curl;
  state->address = address;
  state->handle = curl.easy_init();
  if (state->handle == nullptr) return fail(Errc::kInternal, "libcurl could not be set up");
  return HttpClient(std::move(state));
}

Result<HttpResponse> HttpClient::send(const HttpRequest& request) {
  const CurlLibrary& curl = state_->curl;
  CURL* const handle = state_->handle;
  HttpResponse response;
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
  CURLcode code = state_->set_options(request, url, headers, &response);
  int tries = 1;
  const auto start = std::chrono::steady_clock::now();
  if (code == CURLE_OK) code = curl.easy_perform(handle);
  if (request.method == "GET") {
    for (auto pause = kPausesOfTries.begin();
         pause != kPausesOfTries.end() && is_connection_lost(code); ++pause) {
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
  if (code != CURLE_OK) {
    const std::string message = state_->curl_message.front() != '\0' ? state_->curl_message.data()
                                                                     : curl.easy_strerror(code);
    return fail(Errc::kUnavailable, "{}", printable(trim(message)));
  }
  return response;
}

}  // namespace dlrun
