#pragma once
// The environment as a value: taken once at the start, passed along, never read again from the
// process.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

class Env {
 public:
  Env() = default;
  explicit Env(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {}

  /// The process's environment now. Entries without '=' are dropped.
  [[nodiscard]] static Env of_process();

  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;
  /// The value, or fallback when it is not set or empty.
  [[nodiscard]] std::string get_or(std::string_view name, std::string_view fallback) const;
  [[nodiscard]] bool has(std::string_view name) const { return get(name).has_value(); }
  void set(std::string_view name, std::string_view value);
  void unset(std::string_view name);

  /// Removes each variable whose name matches a pattern; a trailing '*' matches any rest. keep wins
  /// over patterns.
  void remove_matching(const std::vector<std::string_view>& patterns,
                       const std::vector<std::string_view>& keep);

  /// NAME=value strings, sorted by name, as execve takes them.
  [[nodiscard]] std::vector<std::string> entries() const;
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& values() const {
    return values_;
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace dlrun
