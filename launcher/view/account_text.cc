#include "launcher/view/account_text.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"
#include "common/units.h"

namespace dlrun {
namespace {

constexpr std::string_view kGpu = "gres/gpu";

/// Returns the fraction of the limit that is left, at most 1; 0 for a limit of 0.
double fraction_left(const AccountLimit& limit) {
  return limit.limit_minutes > 0 ? limit.left_minutes() / limit.limit_minutes : 0;
}

std::string hours_text(double minutes) {
  return value_text(minutes / 60);
}

std::string limit_text(const AccountLimit& limit) {
  std::string text = fmt::format("{} of {} {} are left", hours_text(limit.left_minutes()),
                                 hours_text(limit.limit_minutes), hours_unit(limit.resource));
  if (!limit.user.empty()) text += " for " + printable(limit.user);
  if (limit.reserved_minutes >= 1)
    text += fmt::format(" (another {} are reserved for running jobs)",
                        hours_text(limit.reserved_minutes));
  return text;
}

}  // namespace

std::string hours_unit(std::string_view resource) {
  if (resource == "cpu") return "core-hours";
  if (resource == "node") return "node-hours";
  if (resource == "mem") return "MiB-hours of memory";
  if (resource == "billing") return "billing hours";
  if (resource == kGpu) return "GPU-hours";
  if (resource.starts_with("gres/gpu:"))
    return fmt::format("GPU-hours ({})", printable(resource.substr(kGpu.size() + 1)));
  return printable(resource) + "-hours";
}

std::string account_text(const AccountUse& use) {
  if (use.limits.empty()) return printable(use.account) + ", without a limit on its hours";
  std::vector<AccountLimit> limits = use.limits;
  std::stable_sort(limits.begin(), limits.end(), [](const AccountLimit& a, const AccountLimit& b) {
    return fraction_left(a) < fraction_left(b);
  });
  std::vector<std::string> texts;
  for (const AccountLimit& limit : limits) texts.push_back(limit_text(limit));
  return fmt::format("{}: {}", printable(use.account), join(texts, "; "));
}

std::string too_few_hours_text(const AccountUse& use, const std::optional<double>& gpu_hours,
                               const std::optional<double>& core_hours) {
  for (const AccountLimit& limit : use.limits) {
    const auto hours = limit.resource == kGpu    ? gpu_hours
                       : limit.resource == "cpu" ? core_hours
                                                 : std::nullopt;
    if (!hours || *hours * 60 <= limit.left_minutes()) continue;
    const std::string user_of =
        limit.user.empty() ? "" : fmt::format("user {} of ", printable(limit.user));
    return fmt::format(
        "the job may use {} {}, and {}the account {} has {} left: Slurm may accept the job and not "
        "start it. Set a shorter resources.time, or another resources.account",
        value_text(*hours), hours_unit(limit.resource), user_of, printable(use.account),
        hours_text(limit.left_minutes()));
  }
  return {};
}

}  // namespace dlrun
