#pragma once
// What the stand-ins for container programs share: messages, their arguments, namespaces, mounts.
// None of it returns from a failure: die() is the program's own, with the words and the code that
// the real one has.

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stand_in {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

[[noreturn]] void die(const std::string& message);
[[noreturn]] void die_errno(const std::string& what);
void check(bool is_ok, const std::string& what);

[[nodiscard]] std::string variable(const char* name, std::string otherwise = "");
[[nodiscard]] std::vector<char*> pointers(Words& words);

/// Runs a program to its end, its output on stderr. Dies where it fails.
void run(Words words);

/// A program's own options: --name value, --name=value, short forms, and where they end.
class Arguments {
 public:
  explicit Arguments(Words words) : words_(std::move(words)) {}

  /// The next option, with its value where it takes one; nothing at the first word that is none.
  [[nodiscard]] std::optional<std::string> option(
      std::initializer_list<std::string_view> with_value);
  [[nodiscard]] const std::string& value() const { return value_; }
  [[nodiscard]] std::string take();
  [[nodiscard]] const Words& rest() const { return words_; }

 private:
  Words words_;
  std::string value_;
};

/// User and mount namespaces of this process's own, in which it is root or who it was.
void enter_namespaces(bool is_root);

/// Binds source to target, which exists. flags: MS_REC, and what restricts (MS_RDONLY, MS_NOSUID,
/// ...).
void bind_mount(const fs::path& source, const fs::path& target, unsigned long flags);
/// Makes a mount read-only, or restricts it otherwise.
void restrict_mount(const fs::path& target, unsigned long restrictions);
/// A file or folder for source to be mounted at.
void make_target(const fs::path& source, const fs::path& target);
/// root becomes /, and nothing of the old one is left.
void change_root(const fs::path& root);

}  // namespace stand_in
