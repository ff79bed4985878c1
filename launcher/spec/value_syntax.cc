#include "launcher/spec/value_syntax.h"

#include <algorithm>
#include <array>
#include <span>

#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr std::int64_t kLongestTimeSeconds = 3650 * kDay;
constexpr std::int64_t kMostNodes = 1'000'000, kMostGpus = 1'000'000;

/// Parses at most 9 digits without a sign, so that sums of products cannot overflow.
[[nodiscard]] std::optional<std::int64_t> parse_digits(std::string_view text) {
  if (text.empty() || text.size() > 9 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  return parse_int(text);
}

/// Parses "1h30m": numbers with d, h, m, s in this order, each at most once. Returns seconds.
[[nodiscard]] std::optional<std::int64_t> parse_suffixed(std::string_view text) {
  constexpr std::array<std::pair<char, std::int64_t>, 4> units{
      {{'d', kDay}, {'h', kHour}, {'m', kMinute}, {'s', 1}}};
  std::int64_t seconds = 0;
  auto unit = units.begin();
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto end = text.find_first_not_of("0123456789");
    if (end == std::string_view::npos) return std::nullopt;
    const auto number = parse_digits(text.substr(0, end));
    unit = std::find_if(unit, units.end(),
                        [&](const auto& candidate) { return candidate.first == text[end]; });
    if (!number || unit == units.end()) return std::nullopt;
    seconds += *number * unit->second;
    ++unit;
    text.remove_prefix(end + 1);
  }
  return seconds;
}

/// A unit in dlrun's forms, and words that users write for it, in lower case and the singular.
struct UnitWords {
  char unit;
  std::string_view words;
};
constexpr std::array<UnitWords, 5> kTimeUnits{{{'s', "s sec second"},
                                               {'m', "m min minute"},
                                               {'h', "h hr hour"},
                                               {'d', "d day"},
                                               {'w', "w wk week"}}};
constexpr std::array<UnitWords, 4> kMemoryUnits{{{'K', "k kb kib kilobyte"},
                                                 {'M', "m mb mib megabyte"},
                                                 {'G', "g gb gib gigabyte"},
                                                 {'T', "t tb tib terabyte"}}};

/// Returns the text with short units and without spaces: "1h30m" for "1 hour 30 mins". Returns ""
/// if the text is not a sequence of numbers with units.
std::string with_short_units(std::string_view text, std::span<const UnitWords> units) {
  std::string short_text;
  text = trim(text);
  while (!text.empty()) {
    const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view rest = trim(text.substr(digits));
    const auto end = std::min(rest.find_first_of("0123456789 "), rest.size());
    std::string word = lower_case(rest.substr(0, end));
    // "ms" stays as it is, because it means milliseconds.
    if (word.size() > 2 && word.back() == 's') word.pop_back();
    const auto found = std::find_if(units.begin(), units.end(), [&](const UnitWords& one) {
      const auto words = split(one.words, ' ');
      return std::find(words.begin(), words.end(), word) != words.end();
    });
    if (digits == 0 || found == units.end()) return {};
    short_text += fmt::format("{}{}", text.substr(0, digits), found->unit);
    text = trim(rest.substr(end));
  }
  return short_text;
}

/// Returns the end of an error's message: "; did you mean '5m'?", or "" if `meant` is empty.
std::string suggestion_text(std::string_view meant) {
  return meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant);
}

/// Returns the end of the error about a text that is no time.
std::string time_suggestion(std::string_view text) {
  const std::string meant = with_short_units(text, kTimeUnits);
  return suggestion_text(parse_suffixed(meant) ? meant : "");
}

/// Returns the end of the error about a text that is no age. Suggests nothing for "6M", which may
/// mean months.
std::string age_suggestion(std::string_view text) {
  const std::string meant =
      text.find('M') == std::string_view::npos ? with_short_units(text, kTimeUnits) : "";
  return suggestion_text(meant != text && parse_age(meant) ? meant : "");
}

/// Returns the end of the error about a text that is no memory size.
std::string memory_suggestion(std::string_view text) {
  const std::string meant = with_short_units(text, kMemoryUnits);
  return suggestion_text(meant != text && check_memory(meant) ? meant : "");
}

/// Parses Slurm's own forms of a time limit. Returns seconds.
[[nodiscard]] std::optional<std::int64_t> parse_slurm_time(std::string_view text) {
  std::int64_t days = 0;
  const auto dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto parsed = parse_digits(text.substr(0, dash));
    if (!parsed) return std::nullopt;
    days = *parsed;
    text.remove_prefix(dash + 1);
  }
  std::array<std::int64_t, 3> fields{};
  std::size_t count = 0;
  for (std::string_view part : split(text, ':')) {
    const auto parsed = parse_digits(part);
    if (!parsed || count == fields.size()) return std::nullopt;
    fields[count++] = *parsed;
  }
  if (dash != std::string_view::npos) {  // D-HH[:MM[:SS]]
    return days * kDay + fields[0] * kHour + fields[1] * kMinute + fields[2];
  }
  if (count == 1) return fields[0] * kMinute;
  if (count == 2) return fields[0] * kMinute + fields[1];
  return fields[0] * kHour + fields[1] * kMinute + fields[2];
}

}  // namespace

Result<std::optional<std::int64_t>> parse_time_limit(std::string_view text) {
  const std::string lower = lower_case(text);
  if (lower == "unlimited" || lower == "infinite") return std::optional<std::int64_t>();
  auto seconds = parse_slurm_time(text);
  if (!seconds) seconds = parse_suffixed(text);
  if (!seconds)
    return fail(Errc::kInvalid,
                "'{}' is not a time; write 00:10:00, 1-12:00:00, 10m, 1h30m or 2d{}",
                printable(text), time_suggestion(text));
  if (*seconds <= 0)
    return fail(Errc::kInvalid, "'{}' is zero, which Slurm reads as no limit; write UNLIMITED",
                printable(text));
  if (*seconds > kLongestTimeSeconds)
    return fail(Errc::kInvalid, "'{}' is more than ten years", printable(text));
  return seconds;
}

std::string format_time_limit(std::int64_t seconds) {
  const auto days = seconds / kDay;
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", seconds % kDay / kHour,
                                        seconds % kHour / kMinute, seconds % kMinute);
  return days > 0 ? fmt::format("{}-{}", days, clock) : clock;
}

Result<std::int64_t> parse_duration(std::string_view text) {
  auto seconds = parse_digits(text);
  if (!seconds) seconds = parse_suffixed(text);
  if (!seconds)
    return fail(Errc::kInvalid, "'{}' is not a duration; write 90s, 10m, 1h30m or 2d{}",
                printable(text), time_suggestion(text));
  if (*seconds > kLongestTimeSeconds)
    return fail(Errc::kInvalid, "'{}' is more than ten years", printable(text));
  return *seconds;
}

Result<std::int64_t> parse_age(std::string_view text) {
  const auto refuse = [&] {
    return fail(Errc::kUsage,
                "'{}' is not an age; write a number and its unit, such as 30d; the units are s, m "
                "(minutes), h, d and w{}",
                printable(text), age_suggestion(text));
  };
  const auto too_long = [&] {
    return fail(Errc::kUsage, "'{}' is longer than the longest age, 3650d or 520w",
                printable(text));
  };
  const bool starts_with_digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (!starts_with_digit || parse_int(text)) return refuse();
  if (text.ends_with('w')) {
    constexpr std::int64_t kMostWeeks = 520;
    const auto weeks = parse_digits(text.substr(0, text.size() - 1));
    if (!weeks) return refuse();
    if (*weeks > kMostWeeks) return too_long();
    return *weeks * 7 * kDay;
  }
  const auto seconds = parse_suffixed(text);
  if (!seconds) return refuse();
  if (*seconds > kLongestTimeSeconds) return too_long();
  return *seconds;
}

Result<> check_memory(std::string_view text) {
  std::string_view digits = text;
  if (!digits.empty() && std::string_view("KMGTkmgt").find(digits.back()) != std::string_view::npos)
    digits.remove_suffix(1);
  // Slurm also accepts a B after the unit ("4GB").
  if (digits.size() > 2 && digits.size() == text.size() &&
      (digits.back() == 'B' || digits.back() == 'b')) {
    digits.remove_suffix(1);
    if (std::string_view("KMGTkmgt").find(digits.back()) == std::string_view::npos) digits = "";
    if (!digits.empty()) digits.remove_suffix(1);
  }
  if (!parse_digits(digits))
    return fail(Errc::kInvalid, "'{}' is not a memory size; write 500M, 64G or 1T{}",
                printable(text), memory_suggestion(text));
  return {};
}

std::optional<std::int64_t> memory_mib(std::string_view text) {
  if (!check_memory(text)) return std::nullopt;
  const auto end = text.find_first_not_of("0123456789");
  const auto number = parse_digits(text.substr(0, end));
  if (!number || *number == 0) return std::nullopt;
  switch (end == std::string_view::npos ? 'M' : text[end]) {
    case 'K':
    case 'k':
      return (*number + 1023) / 1024;
    case 'G':
    case 'g':
      return *number * 1024;
    case 'T':
    case 't':
      return *number * 1024 * 1024;
    default:
      return *number;
  }
}

Result<NodeRange> parse_nodes(std::string_view text) {
  const auto parts = split(text, '-');
  const auto min = parse_digits(parts[0]);
  const auto max = parts.size() == 2 ? parse_digits(parts[1]) : min;
  if (!min || !max || parts.size() > 2) {
    return fail(Errc::kInvalid, "'{}' is not a number of nodes; write 2, or \"2-4\" for a range",
                printable(text));
  }
  if (*min < 1 || *max > kMostNodes)
    return fail(Errc::kInvalid, "{} is not between 1 and {} nodes", printable(text), kMostNodes);
  if (*max < *min)
    return fail(Errc::kInvalid, "the range {} ends before it starts", printable(text));
  return NodeRange{*min, *max};
}

std::string format_nodes(const NodeRange& nodes) {
  return nodes.min == nodes.max ? fmt::format("{}", nodes.min)
                                : fmt::format("{}-{}", nodes.min, nodes.max);
}

Result<> check_gpu_type(std::string_view type) {
  const bool fine =
      !type.empty() && type.size() <= 64 && std::all_of(type.begin(), type.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-' || c == '+';
      });
  if (!fine)
    return fail(Errc::kInvalid, "'{}' is not a GPU type; write a name such as a100 or 1g.5gb",
                printable(type));
  return {};
}

Result<Gpus> parse_gpus(std::string_view text) {
  const auto colon = text.rfind(':');
  Gpus gpus;
  if (colon != std::string_view::npos) {
    gpus.type = text.substr(0, colon);
    DLRUN_TRY(check_gpu_type(gpus.type));
    text.remove_prefix(colon + 1);
  }
  const auto count = parse_digits(text);
  if (!count)
    return fail(Errc::kInvalid,
                "'{}' is not a number of GPUs; write 4, a100:4 or {{type: a100, count: 4}}",
                printable(text));
  if (*count > kMostGpus)
    return fail(Errc::kInvalid, "{} is not between 0 and {} GPUs", *count, kMostGpus);
  gpus.count = *count;
  return gpus;
}

std::string format_gpus(const Gpus& gpus) {
  return gpus.type.empty() ? fmt::format("{}", gpus.count)
                           : fmt::format("{}:{}", gpus.type, gpus.count);
}

std::int64_t gpus_in_gres(std::string_view gres) {
  std::int64_t total = 0;
  for (std::string_view item : split(gres, ',')) {
    item = trim(item);
    if (item.substr(0, 5) == "gres:") item.remove_prefix(5);
    item = item.substr(0, item.find('('));
    const auto parts = split(item, ':');
    if (parts[0] != "gpu") continue;
    const auto count = parts.size() > 1 ? parse_digits(parts.back()) : std::nullopt;
    total += count.value_or(1);
  }
  return total;
}

Result<std::int64_t> parse_checkpoint_interval(std::string_view text) {
  if (text == "1 epoch" || text == "epoch") return 0;
  const auto space = text.find(' ');
  if (space != std::string_view::npos) {
    const auto number = parse_digits(text.substr(0, space));
    const std::string_view unit = trim(text.substr(space));
    if (number && *number > 0 && (unit == "steps" || unit == "step")) return *number;
  }
  return fail(Errc::kInvalid, "'{}' is not an interval; write '500 steps' or '1 epoch'",
              printable(text));
}

}  // namespace dlrun
