// A download is written to .NAME.RANDOM.part, checked, synced and renamed. flock on
// .dlrun-downloads serialises the downloaders of a folder; VerifiedFiles remembers verified files.
#include "launcher/download/downloader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/directories.h"
#include "common/files.h"
#include "common/log.h"
#include "common/sha256.h"
#include "common/text.h"
#include "launcher/download/verified_files.h"
#include "launcher/executors/curl_library.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr std::string_view kUnfinishedEnding = ".part";
constexpr std::size_t kRandomBytes = 6;
constexpr milliseconds kLockPause{100}, kProgressInterval{100};
constexpr long kConnectSeconds = 30, kSlowestBytesPerSecond = 100, kMostRedirections = 10;
/// Pauses before a download resumes after a lost connection.
constexpr std::array kResumePauses{milliseconds{100}, milliseconds{500}, milliseconds{2000}};

[[nodiscard]] bool is_connection_lost(CURLcode code) {
  return code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING ||
         code == CURLE_PARTIAL_FILE;
}

/// Limits how often on_progress() is called. Without this limit, it would be called for every block
/// of the file.
class Pace {
 public:
  /// Returns true, and starts a new interval, if the present interval has ended.
  [[nodiscard]] bool begin_if_due() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kProgressInterval) return false;
    last_ = now;
    return true;
  }

 private:
  std::chrono::steady_clock::time_point last_ = {};
};

/// A file that is written beside its final path under a temporary name. The destructor removes it
/// unless move_into_place() has renamed it.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const fs::path& final_path) : final_(final_path) {
    path_ = final_.parent_path() / fmt::format(".{}.{}{}", final_.filename().string(),
                                               random_hex(kRandomBytes), kUnfinishedEnding);
    fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    // remove_unfinished() tests this lock.
    if (fd_.is_open()) (void)::flock(fd_.get(), LOCK_EX | LOCK_NB);
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  ~UnfinishedFile() {
    if (!is_in_place_) ::unlink(path_.c_str());
  }

  [[nodiscard]] bool is_open() const { return fd_.is_open(); }
  [[nodiscard]] Result<> write(std::string_view bytes) const { return write_all(fd_.get(), bytes); }
  [[nodiscard]] Result<> start_over() const {
    if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0)
      return fail(Errc::kIo, "{}", errno_text(errno));
    return {};
  }

  /// Stores the file on disk and renames it to its final path. Fails with kRefused if the final
  /// path already exists.
  [[nodiscard]] Result<> move_into_place() {
    if (::fsync(fd_.get()) != 0) return fail(Errc::kIo, "{}", errno_text(errno));
    // A second descriptor keeps the lock until the rename.
    const UniqueFd still_locked(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    // On NFS, close() reports data that could not be stored.
    if (::close(fd_.release()) != 0) return fail(Errc::kIo, "{}", errno_text(errno));
    int renamed = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_.c_str(), RENAME_NOREPLACE);
    // A network file system may support plain rename() only.
    if (renamed != 0 && (errno == EINVAL || errno == ENOSYS) && ::access(final_.c_str(), F_OK) != 0)
      renamed = ::rename(path_.c_str(), final_.c_str());
    if (renamed != 0) {
      const int error = errno;
      return fail(error == EEXIST || error == EINVAL ? Errc::kRefused : Errc::kIo, "{}",
                  errno_text(error));
    }
    is_in_place_ = true;
    return sync_directory(final_.parent_path());
  }

 private:
  fs::path final_, path_;
  UniqueFd fd_;
  bool is_in_place_ = false;
};

/// Returns true if the name has the form of an unfinished file: ".NAME.0123456789ab.part".
[[nodiscard]] bool is_name_of_unfinished(std::string_view name) {
  constexpr std::size_t kRandomSuffixLength = 1 + 2 * kRandomBytes;
  if (!name.starts_with('.') || !name.ends_with(kUnfinishedEnding)) return false;
  name.remove_suffix(kUnfinishedEnding.size());
  if (name.size() <= kRandomSuffixLength || name[name.size() - kRandomSuffixLength] != '.')
    return false;
  return name.substr(name.size() - kRandomSuffixLength + 1).find_first_not_of("0123456789abcdef") ==
         std::string_view::npos;
}

/// Removes the files that were left by killed downloads. Keeps locked files, which another
/// downloader is still writing. That downloader could not lock the folder, for example because the
/// folder is on NFS and another member of the group owns .dlrun-downloads.
void remove_unfinished(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const auto& path = entries->path();
    if (!is_name_of_unfinished(path.filename().string())) continue;
    constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    // NFS locks only files that are open for writing.
    UniqueFd fd(::open(path.c_str(), O_RDWR | kFlags));
    if (!fd.is_open()) fd.reset(::open(path.c_str(), O_RDONLY | kFlags));
    if (fd.is_open() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  }
}

/// The state of one transfer, which libcurl's callbacks use.
struct Transfer {
  const CurlLibrary& curl;
  CURL* handle = nullptr;
  const Download& download;
  const DownloadOptions& options;
  UnfinishedFile& file;
  bool can_resume = true;   ///< false: after a lost connection, starts from the first byte
  bool is_resumed = false;  ///< the bytes come from several responses
  Sha256 hash = {};
  std::int64_t bytes = 0;  ///< received so far
  /// The file's size according to the server; nullopt: unknown.
  std::optional<std::int64_t> total = {};
  /// An error that dlrun itself found, such as a full disk or a wrong size.
  std::optional<Error> error = {};
  bool is_interrupted = false;
  Pace pace = {};

  [[nodiscard]] Result<> take(std::string_view piece) {
    if (!total) {
      curl_off_t length = -1;  // the length of this response, which may be the rest of the file
      curl.easy_getinfo(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
      if (length >= 0) total = bytes + length;
    }
    if (download.bytes && total && *total != *download.bytes)
      return fail(Errc::kInvalid, "has {} bytes, but the spec says {}", *total, *download.bytes);
    const auto size = static_cast<std::int64_t>(piece.size());
    if (download.bytes && bytes + size > *download.bytes)
      return fail(Errc::kInvalid, "has more than {0} bytes, but the spec says {0}",
                  *download.bytes);
    hash.update(piece);
    DLRUN_TRY(file.write(piece));
    bytes += size;
    return {};
  }

  [[nodiscard]] Result<> start_over() {
    DLRUN_TRY(file.start_over());
    hash = Sha256();
    bytes = 0;
    total.reset();
    error.reset();
    is_resumed = false;
    return {};
  }

  /// Calls on_progress() at most every 100 ms. Returns false if the transfer must stop.
  [[nodiscard]] bool report_progress() {
    if (!pace.begin_if_due()) return true;
    is_interrupted = !options.on_progress({bytes, download.bytes ? download.bytes : total, false});
    return !is_interrupted;
  }
};

std::size_t take_piece(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (auto taken = transfer.take({data, size * count}); !taken) {
    transfer.error = std::move(taken.error());
    return 0;
  }
  return size * count;
}

int on_transfer_info(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(user)->report_progress() ? 0 : 1;
}

[[nodiscard]] std::string transferred_text(const Transfer& transfer) {
  const auto total = transfer.download.bytes ? transfer.download.bytes : transfer.total;
  return total ? fmt::format("after {} of {} bytes", transfer.bytes, *total)
               : fmt::format("after {} bytes", transfer.bytes);
}

}  // namespace

struct Downloader::State {
  fs::path folder;
  DownloadOptions options;
  VerifiedFiles verified;
  UniqueFd lock;  ///< the lock on .dlrun-downloads; not open if there is no lock
  std::optional<CurlLibrary> curl;
  CURL* handle = nullptr;
  std::array<char, CURL_ERROR_SIZE> curl_message{};

  State(fs::path where, DownloadOptions how)
      : folder(std::move(where)), options(std::move(how)), verified(folder) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (handle != nullptr) curl->easy_cleanup(handle);
  }

  /// Locks the folder. Also succeeds if the folder cannot be locked; `lock` is then not open.
  [[nodiscard]] Result<> take_lock();
  [[nodiscard]] Result<> load_curl();
  [[nodiscard]] CURLcode set_up(Transfer& transfer);
  [[nodiscard]] CURLcode perform(Transfer& transfer);
  [[nodiscard]] Result<CURLcode> perform_to_end(Transfer& transfer);
  [[nodiscard]] Result<> fetch_and_verify(Transfer& transfer);
  [[nodiscard]] long number(CURLINFO what) const;
  [[nodiscard]] Result<> check_result(const Transfer& transfer, CURLcode code) const;
};

Result<> Downloader::State::take_lock() {
  const fs::path path = folder / kVerifiedRecordName;
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  lock.reset(::open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0644));
  // Another member of a group may own the file. A user who may write to the folder still locks it;
  // a user who may only read the folder does not.
  if (!lock.is_open() && ::faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0)
    lock.reset(::open(path.c_str(), O_RDONLY | kFlags));
  if (!lock.is_open()) return {};  // a read-only folder, which may have all the files already
  LockWaitLog wait(path);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      lock.reset();
      return {};
    }
    wait.begin();
    if (!options.on_progress({0, std::nullopt, true}))
      return fail(Errc::kInterrupted, "interrupted; nothing was downloaded into {}",
                  printable(folder.string()));
    std::this_thread::sleep_for(kLockPause);
  }
  return {};
}

Result<> Downloader::State::load_curl() {
  if (handle != nullptr) return {};
  DLRUN_TRY_ASSIGN(curl, CurlLibrary::load("downloads go through",
                                           fmt::format("fetch the files into {} by other means",
                                                       printable(folder.string()))));
  handle = curl->easy_init();
  if (handle == nullptr) return fail(Errc::kInternal, "libcurl could not be set up");
  return {};
}

CURLcode Downloader::State::set_up(Transfer& transfer) {
  CURLcode code = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    if (code == CURLE_OK) code = curl->easy_setopt(handle, option, value);
  };
  const bool is_https = transfer.download.url.starts_with("https://");
  set(CURLOPT_URL, transfer.download.url.c_str());
  set(CURLOPT_ERRORBUFFER, curl_message.data());
  set(CURLOPT_USERAGENT, "dlrun");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, kMostRedirections);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, kSlowestBytesPerSecond);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout.count()));
  set(CURLOPT_WRITEFUNCTION, &take_piece);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &on_transfer_info);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  // Numbers instead of libcurl's names: version 7.85 deprecated the old names, and older versions
  // lack the new ones.
  constexpr auto kProtocols = static_cast<CURLoption>(CURLOPTTYPE_LONG + 181);
  constexpr auto kRedirProtocols = static_cast<CURLoption>(CURLOPTTYPE_LONG + 182);
  set(kProtocols, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  set(kRedirProtocols,
      static_cast<long>(is_https ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS));
  return code;
}

CURLcode Downloader::State::perform(Transfer& transfer) {
  curl_message.front() = '\0';
  transfer.is_resumed = transfer.bytes > 0;
  curl->easy_setopt(handle, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.bytes));
  const auto start = std::chrono::steady_clock::now();
  const CURLcode code = curl->easy_perform(handle);
  log_info("an HTTP request has ended",
           {{"method", "GET"},
            {"url", transfer.download.url},
            {"status", number(CURLINFO_RESPONSE_CODE)},
            {"redirections", number(CURLINFO_REDIRECT_COUNT)},
            {"seconds", std::chrono::steady_clock::now() - start},
            {"error", code == CURLE_OK ? "" : curl->easy_strerror(code)}});
  return code;
}

/// Performs the transfer, and resumes it after a lost connection. Starts again from the first byte
/// if the server cannot send only the rest.
Result<CURLcode> Downloader::State::perform_to_end(Transfer& transfer) {
  constexpr long kNoSuchRange = 416;
  CURLcode code = perform(transfer);
  for (auto pause = kResumePauses.begin(); !transfer.is_interrupted && !transfer.error;) {
    if (transfer.is_resumed &&
        (code == CURLE_RANGE_ERROR || number(CURLINFO_RESPONSE_CODE) == kNoSuchRange)) {
      transfer.can_resume = false;
    } else if (is_connection_lost(code) && pause != kResumePauses.end()) {
      std::this_thread::sleep_for(*pause++);
    } else {
      break;
    }
    if (!transfer.can_resume) {
      if (auto done = transfer.start_over(); !done)
        return within(printable((folder / transfer.download.file).string()), done.error());
    }
    code = perform(transfer);
  }
  return code;
}

/// Fetches the file and checks its size and checksum.
Result<> Downloader::State::fetch_and_verify(Transfer& transfer) {
  const Download& download = transfer.download;
  const std::string url = printable(download.url);
  DLRUN_TRY_ASSIGN(const auto code, perform_to_end(transfer));
  DLRUN_TRY(check_result(transfer, code));
  if (download.bytes && transfer.bytes != *download.bytes)
    return fail(Errc::kInvalid, "{}: has {} bytes, but the spec says {}", url, transfer.bytes,
                *download.bytes);
  if (const std::string found = transfer.hash.final_hex(); found != download.sha256)
    return fail(
        Errc::kInvalid,
        "{}: its {} bytes have the sha256 {}, but the spec says {}; dlrun keeps no part of the "
        "file",
        url, transfer.bytes, found, download.sha256);
  return {};
}

long Downloader::State::number(CURLINFO what) const {
  long value = 0;
  curl->easy_getinfo(handle, what, &value);
  return value;
}

/// Converts libcurl's result to an error. The message contains the url of the spec, never the url
/// of a redirection, which may hold a secret.
Result<> Downloader::State::check_result(const Transfer& transfer, CURLcode code) const {
  const std::string url = printable(transfer.download.url);
  const long status = number(CURLINFO_RESPONSE_CODE);
  const std::string message =
      curl_message.front() != '\0' ? curl_message.data() : curl->easy_strerror(code);
  if (transfer.is_interrupted)
    return fail(Errc::kInterrupted, "interrupted; nothing of {} is kept", url);
  if (transfer.error) {
    const std::string where =
        transfer.error->code == Errc::kInvalid
            ? url
            : fmt::format("{}, {}", printable((folder / transfer.download.file).string()),
                          transferred_text(transfer));
    return within(where, *transfer.error);
  }
  switch (code) {
    case CURLE_OK:
      if (status == 200 || status == 206) return {};
      return fail(Errc::kIo, "{}: the server answers {} instead of the file", url, status);
    case CURLE_HTTP_RETURNED_ERROR:
      if (status == 0)
        return fail(Errc::kIo, "{}: the proxy, which https_proxy or all_proxy names, answers {}",
                    url, number(CURLINFO_HTTP_CONNECTCODE));
      return fail(status == 404 || status == 410 ? Errc::kNotFound : Errc::kIo,
                  "{}: the server answers {}{}", url, status,
                  status == 404   ? " (not found)"
                  : status == 403 ? " (forbidden)"
                                  : "");
    case CURLE_OPERATION_TIMEDOUT:
      if (transfer.bytes == 0 && status == 0)
        return fail(Errc::kIo, "{}: no answer: {}", url, printable(curl_message.data()));
      if (!message.starts_with("Operation too slow"))
        break;  // no connection to the target of a redirection, or on a resumption
      return fail(
          Errc::kIo, "{}: {} the server sent nothing, or less than {} bytes a second, for {} s",
          url, transferred_text(transfer), kSlowestBytesPerSecond, options.stall_timeout.count());
    case CURLE_UNSUPPORTED_PROTOCOL:
      if (!message.starts_with("Protocol")) break;  // the response is not HTTP
      return fail(
          Errc::kIo,
          "{}: leads to an address that does not start with {}; dlrun does not follow it", url,
          transfer.download.url.starts_with("https://") ? "https://" : "http:// or https://");
    default:
      break;
  }
  // libcurl's message would show the proxy with its password.
  if (message.starts_with("Unsupported proxy"))
    return fail(Errc::kIo,
                "{}: libcurl does not support the proxy in http_proxy, https_proxy or all_proxy",
                url);
  return fail(Errc::kIo, "{}: {}{}", url, printable(trim(message)),
              transfer.bytes > 0 ? fmt::format(", {}", transferred_text(transfer)) : "");
}

Downloader::Downloader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Downloader::Downloader(Downloader&&) noexcept = default;
Downloader& Downloader::operator=(Downloader&&) noexcept = default;
Downloader::~Downloader() = default;

Result<Downloader> Downloader::in(const fs::path& folder, DownloadOptions options) {
  if (auto made = make_directories(folder, 0777); !made) {
    std::error_code ignored;
    const bool leads_nowhere = fs::is_symlink(folder, ignored) && !fs::exists(folder, ignored);
    return fail(
        Errc::kIo, "cannot make the folder {}: {}", printable(folder.string()),
        leads_nowhere ? "a symbolic link of that name leads nowhere" : made.error().message);
  }
  auto state = std::make_unique<State>(folder, std::move(options));
  DLRUN_TRY(state->take_lock());
  if (state->lock.is_open()) remove_unfinished(folder);
  state->verified = VerifiedFiles(folder);  // read again under the lock
  return Downloader(std::move(state));
}

Result<bool> Downloader::verify_existing(const Download& download) {
  Pace pace;
  auto found = state_->verified.verify(download, [&](std::int64_t bytes, std::int64_t size) {
    return !pace.begin_if_due() || state_->options.on_progress({bytes, size, false});
  });
  if (found && *found && state_->lock.is_open()) state_->verified.write(state_->lock.get());
  return found;
}

Result<std::int64_t> Downloader::fetch(const Download& download) {
  State& s = *state_;
  const fs::path path = s.folder / download.file;
  DLRUN_TRY(s.load_curl());
  UnfinishedFile file(path);
  if (!file.is_open())
    return fail(Errc::kIo, "cannot write {}: {}", printable(path.string()), errno_text(errno));
  Transfer transfer{*s.curl, s.handle, download, s.options, file};
  if (const CURLcode code = s.set_up(transfer); code != CURLE_OK)
    return tl::unexpected(s.check_result(transfer, code).error());
  Result<> fetched = s.fetch_and_verify(transfer);
  if (!fetched && fetched.error().code == Errc::kInvalid && transfer.is_resumed) {
    // The pieces may come from different versions of the file, or not join exactly.
    transfer.can_resume = false;
    if (auto done = transfer.start_over(); !done)
      return within(printable(path.string()), done.error());
    fetched = s.fetch_and_verify(transfer);
  }
  DLRUN_TRY(fetched);
  if (auto moved = file.move_into_place(); !moved && moved.error().code == Errc::kRefused) {
    // A downloader without the lock has created the file meanwhile.
    DLRUN_TRY_ASSIGN(const auto here, verify_existing(download));
    if (!here)
      return fail(Errc::kIo,
                  "{}: a file of this name appeared and was removed meanwhile; start again",
                  printable(path.string()));
  } else if (!moved) {
    return within(printable(path.string()), moved.error());
  }
  s.verified.record(download);
  if (s.lock.is_open()) s.verified.write(s.lock.get());
  return transfer.bytes;
}

Result<bool> is_downloaded(const fs::path& folder, const Download& download) {
  return VerifiedFiles(folder).verify(download, [](std::int64_t, std::int64_t) { return true; });
}

bool are_verified(const fs::path& folder, std::span<const Download> downloads) {
  const VerifiedFiles verified(folder);
  return std::all_of(downloads.begin(), downloads.end(),
                     [&](const Download& download) { return verified.knows(download); });
}

}  // namespace dlrun
