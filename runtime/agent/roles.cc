#include "runtime/agent/roles.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr int kMaxPs = 1 << 24;

}  // namespace

Result<Roles> Roles::parse(std::string_view text) {
  Roles roles;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    const auto name = part.substr(0, equals);
    const auto count =
        equals == std::string_view::npos ? std::nullopt : parse_int(part.substr(equals + 1));
    const int most = name == "ps" ? kMaxPs : 1;
    int* into = name == "chief"       ? &roles.chief
                : name == "ps"        ? &roles.ps
                : name == "evaluator" ? &roles.evaluator
                                      : nullptr;
    if (into == nullptr || !count || *count < 0 || *count > most) {
      return fail(
          Errc::kUsage,
          "--roles '{}': '{}' is not chief=0|1, ps=N (N from 0 to {}) or evaluator=0|1; the other "
          "ranks are workers",
          printable(text), printable(part), kMaxPs);
    }
    *into = static_cast<int>(*count);
  }
  return roles;
}

Result<> Roles::check(int size) const {
  const int least = std::max(chief, 1) + ps + evaluator;  // without a chief, a worker acts as one
  if (size < least) {
    return fail(Errc::kUsage, "--roles chief={},ps={},evaluator={} needs at least {} ranks, not {}",
                chief, ps, evaluator, least, size);
  }
  return {};
}

Role Roles::of(int rank, int size) const {
  const std::array<std::pair<std::string_view, int>, 3> counts{
      {{"chief", chief}, {"worker", size - chief - ps - evaluator}, {"ps", ps}}};
  for (const auto& [name, count] : counts) {
    if (rank < count) return {name, rank};
    rank -= count;
  }
  return {"evaluator", rank};
}

std::string tf_config(const Roles& roles, const std::vector<Endpoint>& table, int rank) {
  using nlohmann::ordered_json;
  const int size = static_cast<int>(table.size());
  ordered_json cluster = ordered_json::object();
  for (int at = 0; at < size; ++at) {
    const auto role = roles.of(at, size);
    if (role.name != "evaluator")
      cluster[std::string(role.name)].push_back(table[static_cast<std::size_t>(at)].text());
  }
  const auto mine = roles.of(rank, size);
  return ordered_json{{"cluster", cluster}, {"task", {{"type", mine.name}, {"index", mine.index}}}}
      .dump();
}

}  // namespace dlrun::agent
