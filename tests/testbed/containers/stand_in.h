#pragma once
// Functions that the stand-ins for enroot and apptainer share: messages, arguments, namespaces,
// mounts. A function that fails does not return: it calls the program's own die(), which prints the
// message and exits with the code of the real program.

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

/// Prints the message and exits with the code of the real program.
[[noreturn]] void die(const std::string& message);
/// Calls die() with `what` and the text of errno.
[[noreturn]] void die_errno(const std::string& what);
/// Calls die_errno(what) unless is_ok.
void check(bool is_ok, const std::string& what);

/// Returns an environment variable, or `otherwise` if it is unset or empty.
[[nodiscard]] std::string variable(const char* name, std::string otherwise = "");
/// Returns argv for execv(): pointers into `words`, then nullptr.
[[nodiscard]] std::vector<char*> pointers(Words& words);

/// Runs a program to its end, with its output on stderr. Dies if the program fails.
void run(Words words);

/// Parses a program's own options: --name value, --name=value and short forms. The options end at
/// the first word that is no option.
class Arguments {
 public:
  explicit Arguments(Words words) : words_(std::move(words)) {}

  /// Returns the next option and stores its value if it takes one. with_value: the options whose
  /// value may be the next word. Returns nullopt if no word is left, at the first word that is no
  /// option, and at `--`, which it removes. Dies if a value is missing.
  [[nodiscard]] std::optional<std::string> next_option(
      std::initializer_list<std::string_view> with_value);
  /// Returns the value of the option that next_option() returned last; empty if it has none.
  [[nodiscard]] const std::string& value() const { return value_; }
  /// Removes the next word and returns it. Dies if there is none.
  [[nodiscard]] std::string take();
  [[nodiscard]] const Words& rest() const { return words_; }

 private:
  Words words_;
  std::string value_;
};

/// Enters new user and mount namespaces. is_root: the calling user has the ids of root there;
/// otherwise the user's ids stay the same. Later mounts do not reach the host.
void enter_namespaces(bool is_root);

/// Binds `source` to the existing `target`. flags: MS_REC and restrictions (MS_RDONLY,
/// MS_NOSUID, ...).
void bind_mount(const fs::path& source, const fs::path& target, unsigned long flags);
/// Restricts an existing mount. restrictions: MS_RDONLY, MS_NOSUID, MS_NODEV and MS_NOEXEC.
void restrict_mount(const fs::path& target, unsigned long restrictions);
/// Creates a file or folder at `target`, of the same kind as `source`, for a bind mount. Does
/// nothing if `target` exists. Ignores failures: the mount that follows fails then.
void make_target(const fs::path& source, const fs::path& target);
/// Makes `root` the new / and unmounts the old one.
void change_root(const fs::path& root);

}  // namespace stand_in
