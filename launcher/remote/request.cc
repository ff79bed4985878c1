// A request is a list of NAME=VALUE texts, an empty text, and the command's arguments. The parts
// are joined by NUL and encoded as base64url.

#include "launcher/remote/request.h"

#include <algorithm>
#include <array>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kVersion = "1";
constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t kMostNoiseBytes = 1U << 20U;
constexpr std::size_t kMostFrameBytes = 16U << 20U;
constexpr std::size_t kFrameHeadBytes = 5;

/// The words of RemoteMode, in its order.
constexpr std::array<std::string_view, 4> kModes{"command", "terminal", "mirror", "pipe"};

Result<> set_field(RemoteRequest& request, std::string_view name, std::string value) {
  const bool is_yes = value == "1";
  if (name == "mode") {
    for (std::size_t i = 0; i < kModes.size(); ++i) {
      if (kModes[i] == value) request.mode = static_cast<RemoteMode>(i);
    }
  } else if (name == "nonce") {
    request.nonce = std::move(value);
  } else if (name == "root") {
    request.root = std::move(value);
  } else if (name == "mirror") {
    request.mirror = std::move(value);
  } else if (name == "subfolder") {
    request.subfolder = std::move(value);
  } else if (name == "token") {
    request.token = std::move(value);
  } else if (name == "git_state") {
    request.git_state = from_base64url(value).value_or("");
  } else if (name == "state") {
    request.code_state = std::move(value);
  } else if (name == "files") {
    request.file_list = from_base64url(value).value_or("");
  } else if (name == "colour_out") {
    request.colour_out = is_yes;
  } else if (name == "colour_err") {
    request.colour_err = is_yes;
  } else if (name == "has_input") {
    request.has_input = is_yes;
  } else if (name == "path") {
    request.paths.push_back(std::move(value));
  } else if (name != "version" || value != kVersion) {
    return fail(Errc::kInvalid,
                "the other dlrun sends requests that this dlrun ({}) does not know: both need the "
                "same version",
                DLRUN_VERSION);
  }
  return {};
}

}  // namespace

std::string word_of(const RemoteRequest& request) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format("{}={}{}", name, value, '\0');
  };
  add("version", kVersion);
  add("mode", kModes[static_cast<std::size_t>(request.mode)]);
  add("nonce", request.nonce);
  add("root", request.root);
  add("mirror", request.mirror);
  add("subfolder", request.subfolder);
  add("token", request.token);
  add("git_state", base64url(request.git_state));  // the state may hold NUL bytes
  add("state", request.code_state);
  add("files", base64url(request.file_list));
  add("colour_out", request.colour_out ? "1" : "");
  add("colour_err", request.colour_err ? "1" : "");
  add("has_input", request.has_input ? "1" : "");
  for (const std::string& path : request.paths) add("path", path);
  for (const std::string& word : request.argv) text += '\0' + word;
  return base64url(text);
}

Result<RemoteRequest> parse_request(std::string_view word) {
  const auto bytes = from_base64url(word);
  if (!bytes)
    return fail(Errc::kInvalid, "--remote: the word is no request; only dlrun itself sends one");
  RemoteRequest request;
  const auto parts = split(*bytes, '\0');
  std::size_t at = 0;
  for (; at < parts.size() && !parts[at].empty(); ++at) {
    const auto equals = parts[at].find('=');
    if (equals == std::string_view::npos)
      return fail(Errc::kInvalid, "--remote: '{}' is no field of a request", printable(parts[at]));
    DLRUN_TRY(
        set_field(request, parts[at].substr(0, equals), std::string(parts[at].substr(equals + 1))));
  }
  // An empty part separates the fields from the command's arguments.
  for (++at; at < parts.size(); ++at) request.argv.emplace_back(parts[at]);
  const bool has_nonce = !request.nonce.empty() && from_hex(request.nonce);
  if (!has_nonce) return fail(Errc::kInvalid, "--remote: the request has no hexadecimal nonce");
  return request;
}

std::string base64url(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) text += kBase64Digits[(bits >> (count - 6)) & 63U];
  }
  if (count > 0) text += kBase64Digits[(bits << (6 - count)) & 63U];
  return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = kBase64Digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 255U);
  }
  if (text.size() % 4 == 1) return std::nullopt;
  return bytes;
}

std::string marker_of(std::string_view nonce, std::string_view version) {
  return fmt::format("<dlrun {} {}>\n", nonce, version);
}

Result<std::string> MarkerFilter::pass(std::string_view bytes) {
  if (has_begun_) return std::string(bytes);
  // Does not search the same text again. Otherwise output that comes byte by byte would take
  // quadratic time.
  constexpr std::size_t kLongestVersion = 256;
  const auto overlap = std::min(noise_.size(), marker_start_.size() + kLongestVersion);
  const auto from = noise_.size() - overlap;
  noise_ += bytes;
  const auto at = noise_.find(marker_start_, from);
  const auto end = at == std::string::npos ? at : noise_.find(">\n", at);
  if (end != std::string::npos) {
    has_begun_ = true;
    version_ = noise_.substr(at + marker_start_.size(), end - at - marker_start_.size());
    std::string rest = noise_.substr(end + 2);
    noise_.resize(at);
    return rest;
  }
  if (noise_.size() > kMostNoiseBytes) {
    return fail(Errc::kInvalid,
                "the host printed more than {} bytes and no answer; a file that its shell reads at "
                "the start (.bashrc, .cshrc, config.fish) may print without end",
                kMostNoiseBytes);
  }
  return std::string();
}

std::string encode(const RemoteFrame& frame) {
  const auto size = static_cast<std::uint32_t>(frame.bytes.size());
  std::string text(1, static_cast<char>(frame.kind));
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>((size >> shift) & 255U);
  return text + frame.bytes;
}

Result<std::optional<RemoteFrame>> FrameReader::next() {
  if (waiting_.size() < kFrameHeadBytes) return std::optional<RemoteFrame>();
  if (std::string_view("iesg").find(waiting_[0]) == std::string_view::npos)
    return fail(Errc::kInvalid, "--remote: standard input holds no frames");
  std::uint32_t size = 0;
  for (std::size_t i = 1; i < kFrameHeadBytes; ++i)
    size = (size << 8U) | static_cast<unsigned char>(waiting_[i]);
  if (size > kMostFrameBytes)
    return fail(Errc::kInvalid, "--remote: a frame has {} bytes, at most {} are allowed", size,
                kMostFrameBytes);
  if (waiting_.size() < kFrameHeadBytes + size) return std::optional<RemoteFrame>();
  RemoteFrame frame{static_cast<RemoteFrame::Kind>(waiting_[0]),
                    waiting_.substr(kFrameHeadBytes, size)};
  waiting_.erase(0, kFrameHeadBytes + size);
  return std::optional(std::move(frame));
}

}  // namespace dlrun
