#include "runtime/agent/sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace dlrun::agent {
namespace {

/// Returns true if a write to fd will not block. O_NONBLOCK cannot be set, because other programs
/// may share the descriptor. A pipe or terminal that polls as writable accepts PIPE_BUF bytes in
/// one write, which does not block and does not mix them with other writers' bytes.
bool takes_a_piece_now(int fd) {
  pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&writable, 1, 0) > 0;
}

/// Returns the size of the next piece: at most PIPE_BUF bytes, and whole lines if possible, so that
/// lines of several ranks do not mix.
std::size_t piece_size(std::string_view bytes) {
  const auto piece = bytes.substr(0, PIPE_BUF);
  if (piece.size() == bytes.size()) return piece.size();
  const auto line_end = piece.rfind('\n');
  return line_end == std::string_view::npos ? piece.size() : line_end + 1;
}

}  // namespace

Sink::Sink(EventLoop& loop, int fd) : loop_(loop), fd_(fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  UniqueFd duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!duplicate.is_open()) return;
  file_ =
      std::make_unique<BackgroundFile>(std::move(duplicate), fmt::format("descriptor {}", fd),
                                       kFileQueueLimitBytes, BackgroundFile::Content::kSharedText);
  watch_ = loop_.watch(file_->event_fd(), EPOLLIN, [this](std::uint32_t) { file_->acknowledge(); });
}

Sink::~Sink() {
  if (watch_) loop_.unwatch(*watch_);
}

void Sink::push(std::string_view bytes) {
  if (file_) return file_->push_or_drop(std::string(bytes));
  if (reader_is_gone_) return;
  held_ += bytes;
  if (!watch_) flush();
}

std::size_t Sink::held_bytes() const {
  return file_ ? file_->queued_bytes() : held_.size() - written_;
}

void Sink::flush() {
  while (written_ < held_.size() && takes_a_piece_now(fd_)) {
    const auto rest = std::string_view(held_).substr(written_);
    const ssize_t wrote = ::write(fd_, rest.data(), piece_size(rest));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) break;
    if (wrote < 0) {
      // The reader is gone, or the write failed. The program must continue nevertheless.
      reader_is_gone_ = errno == EPIPE || errno == EBADF || errno == EIO;
      written_ = held_.size();
      break;
    }
    written_ += static_cast<std::size_t>(wrote);
  }
  if (written_ == held_.size()) {
    held_.clear();
    written_ = 0;
    if (watch_) loop_.unwatch(*watch_);
    watch_.reset();
  } else if (!watch_) {
    watch_ = loop_.watch(fd_, EPOLLOUT, [this](std::uint32_t) { flush(); });
  }
}

}  // namespace dlrun::agent
