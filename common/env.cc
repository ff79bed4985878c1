#include "common/env.h"

#include <unistd.h>

#include <algorithm>

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): unistd.h declares it for
                            // _GNU_SOURCE only

namespace dlrun {

const Env::Values& Env::values() const {
  static const Values none;
  return shared_ ? *shared_ : none;
}

Env::Values& Env::unshared_values() {
  if (!shared_) {
    shared_ = std::make_shared<Values>();
  } else if (shared_.use_count() > 1) {
    shared_ = std::make_shared<Values>(*shared_);
  }
  return *shared_;
}

Env Env::of_process() {
  Values values;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    values.insert_or_assign(std::string(text.substr(0, equals)),
                            std::string(text.substr(equals + 1)));
  }
  return Env(std::move(values));
}

std::optional<std::string_view> Env::get(std::string_view name) const {
  const auto found = values().find(name);
  if (found == values().end()) return std::nullopt;
  return found->second;
}

std::string Env::get_or(std::string_view name, std::string_view fallback) const {
  const auto value = get(name);
  return std::string(value && !value->empty() ? *value : fallback);
}

void Env::set(std::string_view name, std::string_view value) {
  unshared_values().insert_or_assign(std::string(name), std::string(value));
}

void Env::unset(std::string_view name) {
  if (!has(name)) return;
  Values& values = unshared_values();
  values.erase(values.find(name));
}

void Env::remove_matching(const std::vector<std::string_view>& patterns,
                          const std::vector<std::string_view>& keep) {
  const auto is_removed = [&](std::string_view name) {
    if (std::find(keep.begin(), keep.end(), name) != keep.end()) return false;
    return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
      if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
      return name == pattern;
    });
  };
  Values kept;
  for (const auto& entry : values()) {
    if (!is_removed(entry.first)) kept.insert(kept.end(), entry);
  }
  shared_ = std::make_shared<Values>(std::move(kept));
}

std::vector<std::string> Env::entries() const {
  std::vector<std::string> entries;
  entries.reserve(values().size());
  for (const auto& [name, value] : values()) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace dlrun
