#include "runtime/agent/sample_board.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace dlrun::agent {
namespace {

using Clock = SampleBoard::Clock;
using std::chrono::seconds;

constexpr seconds kLeastPause{4};
constexpr seconds kLongestRanksJsonPause{20};
constexpr seconds kLongestEventPause{60};
/// The interval of ranks.json in seconds is the number of ranks divided by this number, within the
/// limits above. With 10,000 ranks lead writes about 600 KiB every 20 s.
constexpr std::size_t kRanksJsonPauseDivisor = 500;
/// The interval of `samples` events is the attempt's duration so far divided by this number, within
/// the limits above.
constexpr int kEventPauseDivisor = 100;
constexpr std::size_t kMaxListedSlowRanks = 5;
/// A rank is slow if its own work on a step takes more than kSlowFactor times the median, and more
/// than kSlowLeastMs longer than the median: the other ranks then wait for this rank. A rank that
/// lags is slow, even if its work is short.
constexpr double kSlowFactor = 1.3;
constexpr double kSlowLeastMs = 1;
/// The longest time until lead knows that a rank has reached a step: the program's report and the
/// heartbeat each take time. Ranks are therefore compared with a median step that is at least this
/// old.
constexpr seconds kReportDelay{6};

template <typename Value>
Value median_of(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double to_thousandths(double value) {
  return std::round(value * 1000) / 1000;
}

/// Returns the spread of values, rounded; nullopt if there are none.
template <typename Value>
std::optional<events::Spread<Value>> spread_of(const std::vector<Value>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const Value value : values) sum += static_cast<double>(value);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double mean = sum / static_cast<double>(values.size());
  if constexpr (std::is_integral_v<Value>) {
    return events::Spread<Value>{*least, static_cast<Value>(std::llround(mean)), *most};
  } else {
    return events::Spread<Value>{to_thousandths(*least), to_thousandths(mean),
                                 to_thousandths(*most)};
  }
}

template <typename Value>
std::string or_null(const std::optional<Value>& value) {
  if (!value) return "null";
  if constexpr (std::is_floating_point_v<Value>) return fmt::format("{:.4g}", *value);
  return fmt::format("{}", *value);
}

}  // namespace

/// Combines the use of GPUs: the mean of the known percentages, the sums of the bytes and the
/// power.
GpuUse SampleBoard::combined(std::span<const GpuUse> gpus) {
  GpuUse sum;
  double percent = 0;
  std::size_t with_percent = 0;
  for (const GpuUse& gpu : gpus) {
    if (gpu.percent) {
      percent += *gpu.percent;
      ++with_percent;
    }
    if (gpu.used_bytes) sum.used_bytes = sum.used_bytes.value_or(0) + *gpu.used_bytes;
    if (gpu.total_bytes) sum.total_bytes = sum.total_bytes.value_or(0) + *gpu.total_bytes;
    if (gpu.watts) sum.watts = sum.watts.value_or(0) + *gpu.watts;
  }
  if (with_percent > 0) sum.percent = percent / static_cast<double>(with_percent);
  return sum;
}

void SampleBoard::add(const World& world, const std::string& host) {
  if (index_of_rank_.contains(world.rank)) return;
  const auto [node, is_new] = node_of_host_.emplace(host, static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(host);
  Rank rank;
  rank.rank = world.rank;
  rank.node = node->second;
  rank.local_rank = world.local_rank;
  rank.local_size = std::max(world.local_size, 1);
  index_of_rank_[world.rank] = ranks_.size();
  ranks_.push_back(std::move(rank));
}

void SampleBoard::add_beat(int rank_number, const to_lead::Beat& beat, Clock::time_point now) {
  const auto found = index_of_rank_.find(rank_number);
  if (found == index_of_rank_.end()) return;
  Rank& rank = ranks_[found->second];
  rank.heard_at = now;
  if (beat.is_bare) return;
  rank.has_reported = true;
  ranks_json_has_news_ = event_has_news_ = has_samples_ = true;
  if (beat.cpu) rank.busy_cores = beat.cpu;
  // The value is smoothed, so that a rank does not count as slow because its machine was busy for
  // one second.
  if (beat.work_ms) {
    const double work = events::value_of(*beat.work_ms);
    rank.work_ms = (work + rank.work_ms.value_or(work)) / 2;
  }
  if (beat.rss_bytes) rank.resident_bytes = beat.rss_bytes;
  if (beat.step) rank.step = beat.step;
  if (beat.gpus && !beat.gpus->empty()) rank.gpus = combined(*beat.gpus);
  if (beat.node_gpus) gpus_of_node_[rank.node] = *beat.node_gpus;
}

std::optional<GpuUse> SampleBoard::gpu_use_of(const Rank& rank) const {
  if (rank.gpus) return rank.gpus;
  const auto node = gpus_of_node_.find(rank.node);
  if (node == gpus_of_node_.end() || node->second.empty()) return std::nullopt;
  // All frameworks assign the GPUs of a node to its ranks in order.
  const auto& all = node->second;
  const auto local_rank = static_cast<std::size_t>(rank.local_rank),
             local_size = static_cast<std::size_t>(rank.local_size);
  const std::size_t begin = std::min(local_rank * all.size() / local_size, all.size() - 1);
  const std::size_t end =
      std::clamp((local_rank + 1) * all.size() / local_size, begin + 1, all.size());
  return combined({all.begin() + static_cast<std::ptrdiff_t>(begin),
                   all.begin() + static_cast<std::ptrdiff_t>(end)});
}

std::optional<double> SampleBoard::power_of_gpus() const {
  std::optional<double> watts;
  const auto add = [&](const std::optional<double>& more) {
    if (more) watts = watts.value_or(0) + *more;
  };
  for (const Rank& rank : ranks_) {
    if (rank.gpus) add(rank.gpus->watts);
  }
  // Ranks of one node may share GPUs, so add the node's list once, not the GPUs of each rank.
  for (const auto& [node, gpus] : gpus_of_node_) add(combined(gpus).watts);
  return watts ? std::optional(to_thousandths(*watts)) : std::nullopt;
}

bool SampleBoard::is_ranks_json_due(Clock::time_point now) const {
  const seconds by_size(static_cast<std::int64_t>(ranks_.size() / kRanksJsonPauseDivisor));
  return ranks_json_has_news_ &&
         now >= written_at_ + std::clamp(by_size, kLeastPause, kLongestRanksJsonPause);
}

bool SampleBoard::is_event_due(Clock::time_point now) const {
  const auto pause = std::clamp<Clock::duration>((now - began_at_) / kEventPauseDivisor,
                                                 kLeastPause, kLongestEventPause);
  return event_has_news_ && now >= recorded_at_ + pause;
}

void SampleBoard::judge(Clock::time_point now) {
  std::vector<double> work;
  std::vector<std::int64_t> steps;
  for (const Rank& rank : ranks_) {
    if (rank.work_ms) work.push_back(*rank.work_ms);
    if (rank.step) steps.push_back(*rank.step);
  }
  if (median_next_ && now >= median_next_->when + kReportDelay)
    median_reached_ = std::exchange(median_next_, std::nullopt);
  if (!median_next_ && !steps.empty()) median_next_ = Reached{median_of(steps), now};
  const bool has_median = work.size() >= 2;
  const double median_work = has_median ? median_of(work) : 0;
  for (Rank& rank : ranks_) {
    rank.lag = median_reached_ && rank.step
                   ? std::max<std::int64_t>(median_reached_->step - *rank.step, 0)
                   : 0;
    // For two values, median_of() returns the larger one, which belongs to the slower rank. Two
    // ranks are therefore compared with the smaller value, which belongs to the faster rank.
    const double usual = work.size() == 2 ? std::min(work[0], work[1]) : median_work;
    const bool works_long = has_median && rank.work_ms && *rank.work_ms > usual * kSlowFactor &&
                            *rank.work_ms > usual + kSlowLeastMs;
    rank.is_slow = works_long || rank.lag > 0;
  }
}

std::vector<const SampleBoard::Rank*> SampleBoard::reporting_ranks() const {
  std::vector<const Rank*> ranks;
  for (const Rank& rank : ranks_) {
    if (rank.has_reported) ranks.push_back(&rank);
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const Rank* a, const Rank* b) { return a->rank < b->rank; });
  return ranks;
}

std::string SampleBoard::take_ranks_json(int attempt, std::string_view time,
                                         Clock::time_point now) {
  judge(now);
  written_at_ = now;
  ranks_json_has_news_ = false;
  Json head{{"time", time}, {"attempt", attempt}, {"ranks", ranks_.size()}, {"nodes", nodes_}};
  head["columns"] = {
      "rank", "node", "cpu",     "rss_bytes", "gpu",  "gpu_used_bytes", "gpu_total_bytes",
      "step", "lag",  "work_ms", "slow",      "age_s"};
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  text += ",\"rows\":[";
  bool is_first = true;
  for (const Rank* one : reporting_ranks()) {
    const Rank& rank = *one;
    const auto gpus = gpu_use_of(rank).value_or(GpuUse{});
    fmt::format_to(std::back_inserter(text), "{}\n[{},{},{},{},{},{},{},{},{},{},{},{}]",
                   is_first ? "" : ",", rank.rank, rank.node, or_null(rank.busy_cores),
                   or_null(rank.resident_bytes), or_null(gpus.percent), or_null(gpus.used_bytes),
                   or_null(gpus.total_bytes), or_null(rank.step), rank.lag, or_null(rank.work_ms),
                   rank.is_slow, std::chrono::duration_cast<seconds>(now - rank.heard_at).count());
    is_first = false;
  }
  return text + "]}\n";
}

std::optional<events::RankStatistics> SampleBoard::take_event(Clock::time_point now) {
  recorded_at_ = now;
  if (!std::exchange(event_has_news_, false)) return std::nullopt;
  judge(now);
  std::vector<double> cores, percent, work;
  std::vector<std::int64_t> resident, used, steps;
  std::vector<const Rank*> slow;
  const auto reporting = reporting_ranks();
  for (const Rank* one : reporting) {
    const Rank& rank = *one;
    const auto gpus = gpu_use_of(rank).value_or(GpuUse{});
    const auto add = []<typename Value>(std::vector<Value>& values, const auto& value) {
      if (value) values.push_back(static_cast<Value>(*value));
    };
    add(cores, rank.busy_cores);
    add(resident, rank.resident_bytes);
    add(percent, gpus.percent);
    add(used, gpus.used_bytes);
    add(steps, rank.step);
    add(work, rank.work_ms);
    if (rank.is_slow) slow.push_back(one);
  }
  events::RankStatistics samples{.ranks = static_cast<std::int64_t>(reporting.size()),
                                 .cpu = spread_of(cores),
                                 .rss_bytes = spread_of(resident),
                                 .gpu = spread_of(percent),
                                 .gpu_used_bytes = spread_of(used),
                                 .step = spread_of(steps),
                                 .work_ms = spread_of(work),
                                 .gpu_watts = power_of_gpus(),
                                 .slow_rank_count = static_cast<std::int64_t>(slow.size())};
  const auto listed_end =
      slow.begin() + static_cast<std::ptrdiff_t>(std::min(slow.size(), kMaxListedSlowRanks));
  std::partial_sort(slow.begin(), listed_end, slow.end(), [](const Rank* a, const Rank* b) {
    return std::pair(a->lag, a->work_ms.value_or(0)) > std::pair(b->lag, b->work_ms.value_or(0));
  });
  for (auto at = slow.begin(); at != listed_end; ++at) {
    samples.slowest_ranks.push_back({.rank = (*at)->rank,
                                     .host = nodes_[static_cast<std::size_t>((*at)->node)],
                                     .lag = (*at)->lag});
    if ((*at)->work_ms) samples.slowest_ranks.back().work_ms = to_thousandths(*(*at)->work_ms);
  }
  return samples;
}

}  // namespace dlrun::agent
