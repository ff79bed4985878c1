// A node list is parsed into names, and each name into pieces: literal text followed by an optional
// bracket of ranges. The number of nodes is checked before the list is expanded.

#include "common/hostlist.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kShownBytes = 200;            // bytes of a list shown in a message
constexpr std::size_t kSlurmNodeLimit = 64 * 1024;  // Slurm 22.05's limit for the nodes of one list

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;  ///< the least number of digits; shorter numbers get leading zeros
  [[nodiscard]] std::uint64_t count() const { return last - first + 1; }
};

/// The name n[1-3,7]-ib[0-1] has two pieces: n[1-3,7] and -ib[0-1].
struct Piece {
  std::string literal;
  std::vector<Range> ranges;  ///< if empty, the piece is the literal alone
};

/// Returns the position of `part` within `expression`, counted from 1.
std::size_t position_of(std::string_view part, std::string_view expression) {
  return static_cast<std::size_t>(part.data() - expression.data()) + 1;
}

tl::unexpected<Error> malformed(std::string_view expression, std::string_view part,
                                std::string_view what) {
  return fail(Errc::kInvalid, "node list '{}': {} at character {}",
              printable(expression.substr(0, kShownBytes)), what, position_of(part, expression));
}

Result<std::uint64_t> parse_number(std::string_view digits, std::string_view expression) {
  const bool is_decimal =
      !digits.empty() && digits.size() <= 18 &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_decimal) {
    return malformed(expression, digits,
                     fmt::format("'{}' is not a number of at most 18 digits",
                                 printable(digits.substr(0, kShownBytes))));
  }
  return static_cast<std::uint64_t>(*parse_int(digits));
}

Result<std::vector<Range>> parse_ranges(std::string_view inside, std::string_view expression) {
  std::vector<Range> ranges;
  for (std::string_view part : split(inside, ',')) {
    const std::size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    DLRUN_TRY_ASSIGN(const auto first, parse_number(low, expression));
    Range range{first, first, low.size()};
    if (dash != std::string_view::npos) {
      DLRUN_TRY_ASSIGN(const auto last, parse_number(part.substr(dash + 1), expression));
      if (last < first) {
        return malformed(expression, part, fmt::format("the range {} runs backwards", part));
      }
      range.last = last;
    }
    ranges.push_back(range);
  }
  return ranges;
}

Result<std::vector<Piece>> parse_name(std::string_view name, std::string_view expression) {
  std::vector<Piece> pieces;
  while (!name.empty()) {
    Piece piece;
    const std::size_t open = name.find('[');
    piece.literal = name.substr(0, open);
    if (const auto stray = piece.literal.find(']'); stray != std::string::npos)
      return malformed(expression, name.substr(stray), "']' without '['");
    if (open == std::string_view::npos) {
      name = {};
    } else {
      const std::size_t close = name.find(']', open);
      if (close == std::string_view::npos)
        return malformed(expression, name.substr(open), "'[' is not closed");
      DLRUN_TRY_ASSIGN(piece.ranges,
                       parse_ranges(name.substr(open + 1, close - open - 1), expression));
      name.remove_prefix(close + 1);
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

/// Splits a list at the commas outside brackets.
std::vector<std::string_view> split_names(std::string_view expression) {
  std::vector<std::string_view> names;
  std::size_t start = 0;
  bool is_inside = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '[') is_inside = true;
    if (expression[i] == ']') is_inside = false;
    if (expression[i] == ',' && !is_inside) {
      names.push_back(expression.substr(start, i - start));
      start = i + 1;
    }
  }
  names.push_back(expression.substr(start));
  return names;
}

std::string padded(std::uint64_t number, std::size_t width) {
  return fmt::format("{:0{}}", number, width);
}

/// Appends to `hosts` each name that the pieces describe, with `prefix` before it.
void append_names(std::span<const Piece> pieces, const std::string& prefix,
                  std::vector<std::string>& hosts) {
  if (pieces.empty()) {
    hosts.push_back(prefix);
    return;
  }
  const Piece& piece = pieces.front();
  if (piece.ranges.empty()) {
    append_names(pieces.subspan(1), prefix + piece.literal, hosts);
    return;
  }
  for (const Range& range : piece.ranges) {
    for (std::uint64_t number = range.first; number <= range.last; ++number) {
      append_names(pieces.subspan(1), prefix + piece.literal + padded(number, range.width), hosts);
    }
  }
}

/// Parses all names of a list without expanding them.
Result<std::vector<std::vector<Piece>>> parse_list(std::string_view expression, std::size_t limit) {
  std::vector<std::vector<Piece>> names;
  if (expression.empty()) return names;
  if (expression.size() > (1U << 20U))
    return fail(Errc::kInvalid, "the node list has {} bytes; the limit is 1 MiB",
                expression.size());
  std::uint64_t node_count = 0;
  for (std::string_view name : split_names(expression)) {
    if (name.empty()) return malformed(expression, name, "a node name is missing");
    DLRUN_TRY_ASSIGN(auto pieces, parse_name(name, expression));
    constexpr std::ptrdiff_t kMostBrackets = 8;
    if (std::count(name.begin(), name.end(), '[') > kMostBrackets)
      return malformed(expression, name, "more than 8 brackets in the name");
    std::uint64_t count = 1;
    for (const Piece& piece : pieces) {
      if (piece.ranges.empty()) continue;
      std::uint64_t choices = 0;
      for (const Range& range : piece.ranges)
        choices = std::min<std::uint64_t>(choices + range.count(), limit + 1);
      count = std::min<std::uint64_t>(count * choices, limit + 1);
    }
    node_count += count;
    if (node_count > limit) {
      return fail(Errc::kInvalid, "node list '{}' has more than {} nodes",
                  printable(expression.substr(0, kShownBytes)), limit);
    }
    names.push_back(std::move(pieces));
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view expression, std::size_t limit) {
  DLRUN_TRY_ASSIGN(const auto names, parse_list(expression, limit));
  std::vector<std::string> hosts;
  for (const auto& pieces : names) append_names(pieces, "", hosts);
  return hosts;
}

Result<> check_hostlist(std::string_view expression) {
  static constexpr std::string_view kPunctuation = "._-[],";
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kPunctuation.find(c) != std::string_view::npos;
  };
  if (expression.empty()) return fail(Errc::kInvalid, "the node list is empty");
  const auto* const wrong = std::find_if_not(expression.begin(), expression.end(), is_allowed);
  if (wrong != expression.end()) {
    const auto at = expression.substr(static_cast<std::size_t>(wrong - expression.begin()));
    if (*wrong == '/')
      return malformed(expression, at, "write node names, not the path of a file; found '/'");
    if (*wrong == ' ')
      return malformed(expression, at, "only commas separate names; found a space");
    // The message shows all bytes of a multi-byte character.
    std::size_t bytes = 1;
    while (bytes < at.size() && (static_cast<unsigned char>(at[bytes]) & 0xc0U) == 0x80U) ++bytes;
    return malformed(
        expression, at,
        fmt::format("names have only letters, digits, '.', '_', '-' and brackets; found '{}'",
                    printable(at.substr(0, bytes))));
  }
  if (const auto names = parse_list(expression, kSlurmNodeLimit); !names)
    return tl::unexpected(names.error());
  return {};
}

namespace {

/// A host name, split into the text before the last number, the number (at most its last 18
/// digits), and the text after the number.
struct HostParts {
  std::string_view prefix;
  std::string_view digits;
  std::string_view suffix;
};

HostParts split_at_number(std::string_view host) {
  std::size_t end = host.find_last_of("0123456789");
  if (end == std::string_view::npos) return {host, {}, {}};
  ++end;
  std::size_t start = end;
  while (start > 0 && host[start - 1] >= '0' && host[start - 1] <= '9' && end - start < 18) --start;
  return {host.substr(0, start), host.substr(start, end - start), host.substr(end)};
}

}  // namespace

std::string compress_hostlist(std::span<const std::string> hosts) {
  std::string list;
  for (std::size_t i = 0; i < hosts.size();) {
    if (!list.empty()) list += ',';
    const HostParts first = split_at_number(hosts[i]);
    if (first.digits.empty()) {
      list += hosts[i++];
      continue;
    }
    // Adds the following hosts that differ only in the number. Consecutive numbers become ranges.
    std::string inside;
    std::size_t host_count = 0;
    while (i < hosts.size()) {
      const HostParts start = split_at_number(hosts[i]);
      if (start.digits.empty() || start.prefix != first.prefix || start.suffix != first.suffix)
        break;
      std::string_view last = start.digits;
      std::size_t next = i + 1;
      while (next < hosts.size()) {
        const HostParts candidate = split_at_number(hosts[next]);
        if (candidate.prefix != first.prefix || candidate.suffix != first.suffix) break;
        if (candidate.digits !=
                padded(static_cast<std::uint64_t>(*parse_int(last)) + 1, last.size()) ||
            candidate.digits.size() != last.size()) {
          break;
        }
        last = candidate.digits;
        ++next;
      }
      if (!inside.empty()) inside += ',';
      inside += start.digits;
      if (next - i > 1) inside += fmt::format("-{}", last);
      host_count += next - i;
      i = next;
    }
    list += host_count == 1 ? fmt::format("{}{}{}", first.prefix, inside, first.suffix)
                            : fmt::format("{}[{}]{}", first.prefix, inside, first.suffix);
  }
  return list;
}

}  // namespace dlrun
