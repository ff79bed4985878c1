#include "runtime/agent/text_marks.h"

#include <algorithm>
#include <array>

#include "common/text.h"

namespace dlrun::agent {
namespace {

// Marks begin or end with control bytes. These are rare in text, so the search for a mark is fast.
constexpr char kHeadByte = '\x02';
constexpr char kTailByte = '\x03';
// encode() replaces a newline by kEncodedNewline. It replaces kEncodedNewline and kEscape
// themselves by kEscape and a letter.
constexpr char kEncodedNewline = '\x1e';
constexpr char kEscape = '\x10';
constexpr char kEscapedEncodedNewline = 'e';
constexpr char kEscapedEscape = 'd';
/// The characters that encode() replaces.
constexpr std::string_view kToEncode("\n\x1e\x10", 3);

std::string encode(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const auto plain = std::min(text.find_first_of(kToEncode), text.size());
    out.append(text, 0, plain);
    if (plain == text.size()) break;
    if (text[plain] == '\n') {
      out += kEncodedNewline;
    } else {
      out += kEscape;
      out += text[plain] == kEncodedNewline ? kEscapedEncodedNewline : kEscapedEscape;
    }
    text.remove_prefix(plain + 1);
  }
  return out;
}

std::string decode(std::string_view encoded) {
  std::string out;
  out.reserve(encoded.size() + 1);
  for (std::size_t at = 0; at < encoded.size(); ++at) {
    const char c = encoded[at];
    if (c == kEncodedNewline) {
      out += '\n';
    } else if (c == kEscape && at + 1 < encoded.size()) {
      out += encoded[++at] == kEscapedEncodedNewline ? kEncodedNewline : kEscape;
    } else {
      out += c;
    }
  }
  return out;
}

/// Returns true for a label of `srun --label`, such as "  3: ".
bool is_label(std::string_view text) {
  if (!text.ends_with(": ")) return false;
  text = trim(text.substr(0, text.size() - 2));
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Returns true if NAME in `srun -o NAME` is a file. Returns false for "all", "none" and the number
/// of a task.
bool is_output_file(std::string_view name) {
  return name != "all" && name != "none" &&
         (name.empty() || name.find_first_not_of("0123456789") != std::string_view::npos);
}

bool is_agent(std::string_view word) {
  return word == "dlrun-agent" || word.ends_with("/dlrun-agent");
}

/// The letters of srun's options that take no value.
constexpr std::string_view kOptionsWithoutValue = "EHhjlOQsuvVXZ";

/// Returns the value of srun's option --output or --error from a word such as "--output=x", "-o" or
/// "-lox"; nullopt for other words. An empty value means that the value is the next argument.
std::optional<std::string_view> output_value_of(std::string_view word) {
  if (word.starts_with("--")) {
    const auto equals = std::min(word.find('='), word.size());
    const auto name = word.substr(2, equals - 2);
    const bool is_file = name.size() >= 2 && (std::string_view("output").starts_with(name) ||
                                              std::string_view("error").starts_with(name));
    if (!is_file) return std::nullopt;
    return equals == word.size() ? std::string_view() : word.substr(equals + 1);
  }
  if (!word.starts_with('-')) return std::nullopt;
  for (std::size_t at = 1; at < word.size(); ++at) {
    if (word[at] == 'o' || word[at] == 'e') return word.substr(at + 1);
    if (kOptionsWithoutValue.find(word[at]) == std::string_view::npos) return std::nullopt;
  }
  return std::nullopt;
}

/// Removes the option for unbuffered output from a word of srun's options: "-u", or the letter u in
/// "-lu". Returns true if the caller must remove the whole word: nothing is left of the word, or
/// the word is "--unbuffered", which may be abbreviated.
bool remove_unbuffered(std::string& word) {
  if (word.starts_with("--")) {
    const auto name = std::string_view(word).substr(2);
    return name.size() >= 2 && std::string_view("unbuffered").starts_with(name);
  }
  if (word.size() < 2 || word[0] != '-') return false;
  std::size_t at = 1;
  while (at < word.size() && kOptionsWithoutValue.find(word[at]) != std::string_view::npos) {
    if (word[at] == 'u') {
      word.erase(at, 1);
    } else {
      ++at;
    }
  }
  return word.size() == 1;
}

}  // namespace

TextMarks marks_of(const Key& secret) {
  return {kHeadByte + derived_word(secret, "text head"),
          derived_word(secret, "text tail") + kTailByte};
}

std::string TextMarker::mark(std::string_view text) const {
  const auto limit = kMarkedLineLimitBytes - marks_.head.size() - marks_.tail.size() - 1;
  std::string out;
  while (!text.empty()) {
    auto piece = text.substr(0, limit);
    if (const auto line_end = piece.rfind('\n');
        piece.size() < text.size() && line_end != std::string_view::npos)
      piece = piece.substr(0, line_end + 1);
    auto encoded = encode(piece);
    while (encoded.size() > limit) {  // the piece contains bytes that must be escaped
      piece = piece.substr(0, std::max<std::size_t>(piece.size() / 2, 1));
      encoded = encode(piece);
    }
    out += marks_.head;
    out += encoded;
    out += marks_.tail;
    out += '\n';
    text.remove_prefix(piece.size());
  }
  return out;
}

std::string MarkedTextReader::read(std::string_view bytes) {
  std::string out;
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    if (is_long_) {
      out.append(bytes, 0, end + 1);
      is_long_ = is_mid_line_ = false;
    } else if (line_.empty()) {
      handle_line(bytes.substr(0, end), out);
    } else {
      line_ += bytes.substr(0, end);
      handle_line(line_, out);
      line_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
  if (is_long_) {
    out += bytes;
  } else {
    line_ += bytes;
  }
  if (line_.size() > kLineLimitBytes) {
    is_long_ = true;
    out += take_rest();
  }
  return out;
}

std::string MarkedTextReader::take_rest() {
  is_mid_line_ = is_mid_line_ || !line_.empty();
  return std::exchange(line_, {});
}

void MarkedTextReader::handle_line(std::string_view line, std::string& out) {
  auto head = line.find(marks_.head);
  if (head == std::string_view::npos && line.ends_with(marks_.tail)) {
    line.remove_suffix(marks_.tail.size());
    return put({}, line, out);
  }
  if (head == std::string_view::npos) {  // no rank wrote the line, so end a rank's open line first
    if (is_mid_line_) out += '\n';
    is_mid_line_ = false;
    out += line;
    out += '\n';
    if (line.size() <= kLineLimitBytes) on_unmarked_line_(line);
    return;
  }
  auto label = line.substr(0, head);
  if (!is_label(label)) {
    put({}, label, out);  // a part of a split line, or a container's text without a newline
    label = {};
  }
  while (head != std::string_view::npos) {
    line.remove_prefix(head + marks_.head.size());
    head = line.find(marks_.head);
    auto text = line.substr(0, head);
    if (text.ends_with(marks_.tail)) text.remove_suffix(marks_.tail.size());
    put(label, text, out);
  }
}

void MarkedTextReader::put(std::string_view label, std::string_view encoded, std::string& out) {
  if (encoded.empty()) return;
  const auto text = decode(encoded);
  if (label.empty()) {
    out += text;
    is_mid_line_ = text.back() != '\n';
    open_label_.clear();
    return;
  }
  for (std::string_view left = text; !left.empty();) {
    const auto line = left.substr(0, std::min(left.find('\n'), left.size() - 1) + 1);
    if (is_mid_line_ && open_label_ != label) out += '\n';
    if (!is_mid_line_ || open_label_ != label) out += label;
    out += line;
    is_mid_line_ = line.back() != '\n';
    open_label_ = label;
    left.remove_prefix(line.size());
  }
}

bool rank_stderr_goes_to_files(const std::vector<std::string>& argv, const Env& env) {
  // Both options count: without --error, srun writes standard error to the file of --output.
  for (const auto* name : {"SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SRUN_OUTPUT", "SRUN_ERROR"}) {
    if (const auto value = env.get_or(name, ""); !value.empty() && is_output_file(value))
      return true;
  }
  for (std::size_t at = 1; at < argv.size() && !is_agent(argv[at]); ++at) {
    const auto value = output_value_of(argv[at]);
    if (!value) continue;
    const std::string_view next =
        at + 1 < argv.size() ? std::string_view(argv[at + 1]) : std::string_view();
    if (is_output_file(value->empty() ? next : *value)) return true;
  }
  return false;
}

void keep_lines_whole(std::vector<std::string>& argv, Env& env) {
  env.unset("SLURM_UNBUFFEREDIO");
  for (auto word = argv.begin(); word != argv.end() && !is_agent(*word);)
    word = remove_unbuffered(*word) ? argv.erase(word) : word + 1;
}

}  // namespace dlrun::agent
