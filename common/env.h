#pragma once
// Environment variables as a value. The program copies them when it starts, and passes the copy on
// to its functions. Copies share their variables until one of them changes, because copying a
// hundred variables takes a notable part of a short command's time.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlrun {

class Env {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  Env() = default;
  explicit Env(Values values) : shared_(std::make_shared<Values>(std::move(values))) {}

  /// Returns the current environment of the process, without entries that lack '='.
  [[nodiscard]] static Env of_process();

  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;
  /// Returns the value, or the fallback if the variable is unset or empty.
  [[nodiscard]] std::string get_or(std::string_view name, std::string_view fallback) const;
  [[nodiscard]] bool has(std::string_view name) const { return get(name).has_value(); }
  void set(std::string_view name, std::string_view value);
  void unset(std::string_view name);

  /// Removes every variable whose name matches a pattern; a '*' at the end matches any text. Names
  /// in `keep` are never removed.
  void remove_matching(const std::vector<std::string_view>& patterns,
                       const std::vector<std::string_view>& keep);

  /// Returns NAME=value strings for execve, sorted by name.
  [[nodiscard]] std::vector<std::string> entries() const;
  [[nodiscard]] const Values& values() const;

 private:
  /// Returns the variables, which the caller may change. First copies them if another Env shares
  /// them.
  Values& unshared_values();

  std::shared_ptr<Values> shared_;  ///< null: no variables
};

}  // namespace dlrun
