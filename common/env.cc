#include "common/env.h"

#include <unistd.h>

#include <algorithm>

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): unistd.h declares it for
                            // _GNU_SOURCE only

namespace dlrun {

Env Env::of_process() {
  Env env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    env.set(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

std::optional<std::string_view> Env::get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::string Env::get_or(std::string_view name, std::string_view fallback) const {
  const auto value = get(name);
  return std::string(value && !value->empty() ? *value : fallback);
}

void Env::set(std::string_view name, std::string_view value) {
  values_.insert_or_assign(std::string(name), std::string(value));
}

void Env::unset(std::string_view name) {
  const auto found = values_.find(name);
  if (found != values_.end()) values_.erase(found);
}

void Env::remove_matching(const std::vector<std::string_view>& patterns,
                          const std::vector<std::string_view>& keep) {
  std::erase_if(values_, [&](const auto& entry) {
    const std::string_view name = entry.first;
    if (std::find(keep.begin(), keep.end(), name) != keep.end()) return false;
    return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
      if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
      return name == pattern;
    });
  });
}

std::vector<std::string> Env::entries() const {
  std::vector<std::string> entries;
  entries.reserve(values_.size());
  for (const auto& [name, value] : values_) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace dlrun
