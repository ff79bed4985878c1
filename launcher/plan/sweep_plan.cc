#include "launcher/plan/sweep_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/plan/packing.h"
#include "launcher/plan/render.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {
namespace {

using Diagnostics = std::vector<Diagnostic>;

constexpr std::size_t kMostErrors = 20;

/// Returns the id of the point's loaded spec in SweepPlanner::loaded_specs_. Points with the same
/// id share one loaded spec, which move_to_point() changes from one point to another. The id lists
/// the keys that the point sets, and the values of those keys that affect other layers, such as
/// launch.preset (see affects_other_layers()). A layer is a source of values: the point, --set, the
/// file, a base, the site.
[[nodiscard]] std::string id_of_loaded_spec(const SweepPoint& point) {
  std::string text;
  for (const SweptValue& value : point) {
    text += value.key;
    if (affects_other_layers(value.key)) text += "=" + value.text;
    text += '\n';
  }
  return text;
}

/// Returns the text that all points of one array have in common: the #SBATCH lines, and the
/// variables that limit a point to its share of the job (sweep.pack).
[[nodiscard]] std::string id_of_array(const LaunchPlan& plan,
                                      const std::vector<PlannedVariable>& point_variables) {
  std::string text;
  for (const PlannedOption& option : plan.directives) text += option.word() + "\n";
  for (const PlannedVariable& variable : point_variables)
    text += variable.name + "=" + variable.value + "\n";
  return text;
}

class SweepPlanner {
 public:
  SweepPlanner(const LoadRequest& request, const LoadedSpec& loaded, const PlanInputs& inputs)
      : request_(request), inputs_(inputs) {
    request_.text = loaded.text;
  }

  /// Returns the loaded spec of a point; nullptr if it has errors. This object owns the spec. The
  /// next call may change the spec.
  [[nodiscard]] LoadedSpec* load(const SweepPoint& point, std::size_t number) {
    const std::string id = id_of_loaded_spec(point);
    const auto known = loaded_specs_.find(id);
    if (known != loaded_specs_.end()) {
      if (add_errors(move_to_point(known->second, point, request_.env), point, number))
        return nullptr;
      return &known->second;
    }
    request_.point = point;
    auto loaded = load_spec(request_);
    if (!loaded) {
      add_errors(std::move(loaded.error()), point, number);
      return nullptr;
    }
    drop_sweep(*loaded);
    return &loaded_specs_.emplace(id, std::move(*loaded)).first->second;
  }

  [[nodiscard]] std::optional<LaunchPlan> plan(const LoadedSpec& loaded, const SweepPoint& point,
                                               std::size_t number) {
    auto plan = make_plan(loaded, inputs_);
    if (plan) return std::move(*plan);
    add_errors(std::move(plan.error()), point, number);
    return std::nullopt;
  }

  /// Returns the plan of a job that runs `pack` points like this point; nullopt after errors.
  [[nodiscard]] std::optional<LaunchPlan> plan_packed(const LoadedSpec& loaded,
                                                      const SweepPoint& point, std::size_t number,
                                                      std::size_t pack) {
    LoadedSpec packed = loaded;
    packed.spec = packed_spec(loaded.spec, static_cast<std::int64_t>(pack));
    return plan(packed, point, number);
  }

  void refuse(std::string message, const SweepPoint& point, std::size_t number) {
    add_errors({{Diagnostic::Severity::kError, point.front().where, std::move(message), {}}}, point,
               number);
  }

  [[nodiscard]] bool has_enough_errors() const { return errors_.size() >= kMostErrors; }
  [[nodiscard]] Diagnostics& errors() { return errors_; }

 private:
  /// Collects errors; an error that several points share is kept once. Returns true if there is an
  /// error among `found`.
  bool add_errors(Diagnostics found, const SweepPoint& point, std::size_t number) {
    bool has_errors = false;
    for (Diagnostic& one : found) {
      if (!is_error(one)) continue;
      has_errors = true;
      if (has_enough_errors() || !reported_.emplace(describe(one.where), one.message).second)
        continue;
      one.message += fmt::format(" (at point {}: {})", number, describe(point));
      errors_.push_back(std::move(one));
    }
    return has_errors;
  }

  LoadRequest request_;
  const PlanInputs& inputs_;
  std::map<std::string, LoadedSpec> loaded_specs_;
  std::set<std::pair<std::string, std::string>> reported_;
  Diagnostics errors_;
};

/// Returns the keys for which two points have different values, as text: "train.lr, train.batch".
[[nodiscard]] std::string differing_keys(const SweepPoint& a, const SweepPoint& b) {
  std::vector<std::string> keys;
  const auto collect = [&](const SweepPoint& from, const SweepPoint& other) {
    for (const SweptValue& value : from) {
      const bool is_equal = std::any_of(other.begin(), other.end(), [&](const SweptValue& one) {
        return one.key == value.key && one.text == value.text;
      });
      if (!is_equal && std::find(keys.begin(), keys.end(), value.key) == keys.end())
        keys.push_back(value.key);
    }
  };
  collect(a, b);
  collect(b, a);
  return join(keys, ", ");
}

/// Returns an error for each point whose script equals the script of an earlier point.
[[nodiscard]] Diagnostics errors_of_repeated_points(const LoadedSpec& loaded,
                                                    const std::vector<PlannedPoint>& points) {
  Diagnostics errors;
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < points.size() && errors.size() < kMostErrors; ++i) {
    const auto [first, is_new] = seen.emplace(points[i].script, i);
    if (is_new) continue;
    const SweepPoint &values = points[i].values, &earlier = points[first->second].values;
    const Origin& where = values.front().where;
    errors.push_back({Diagnostic::Severity::kError, where,
                      fmt::format("points {} and {} of the sweep are the same job, because the job "
                                  "does not depend on {} ({} and {})",
                                  first->second, i, differing_keys(earlier, values),
                                  describe(earlier), describe(values)),
                      source_line_of(loaded, where)});
  }
  return errors;
}

/// Returns the error for ranges that have fewer different points than sweep.random asks for.
[[nodiscard]] Diagnostic too_narrow_error(const LoadedSpec& loaded, std::size_t found) {
  const auto origin = loaded.spec.origins.find("sweep.random"_key);
  const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
  return {Diagnostic::Severity::kError, where,
          fmt::format("sweep.random: the ranges are too narrow for {} different points; {} were "
                      "found",
                      count_points(loaded.spec.sweep), found),
          source_line_of(loaded, where)};
}

/// Assigns points to arrays. An array has at most max_tasks tasks with `pack` points each, all with
/// the same #SBATCH lines.
class Arrays {
 public:
  Arrays(std::size_t max_tasks, std::size_t pack)
      : max_points_(std::max<std::size_t>(max_tasks, 1) * pack), pack_(pack) {}

  /// Adds the point to an array. plan: the plan of a task. point_variables: Slurm's variables for
  /// one of the task's points.
  void add_point(PlannedPoint& point, const LaunchPlan& plan,
                 std::vector<PlannedVariable> point_variables) {
    auto [newest, is_new] =
        newest_arrays_.try_emplace(id_of_array(plan, point_variables), plans_.size());
    if (!is_new && packings_[newest->second].point_count == max_points_) {
      newest->second = plans_.size();
      is_new = true;
    }
    if (is_new) {
      plans_.push_back(plan);
      packings_.push_back({pack_, 0, std::move(point_variables)});
    }
    point.array = newest->second;
    point.point_in_array = packings_[point.array].point_count++;
  }

  [[nodiscard]] Result<std::vector<PlannedArray>> render(
      std::optional<std::int64_t> max_parallel) const {
    std::vector<PlannedArray> arrays;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      DLRUN_TRY_ASSIGN(auto script, render_array_script(plans_[i], packings_[i], max_parallel));
      arrays.push_back({std::move(script), packings_[i].task_count(), plans_[i].requested});
    }
    return arrays;
  }

 private:
  std::size_t max_points_, pack_;
  std::map<std::string, std::size_t> newest_arrays_;  ///< id_of_array() -> the array's index
  std::vector<LaunchPlan> plans_;  ///< for each array: the plan of its first point's task
  std::vector<Packing> packings_;
};

}  // namespace

void drop_sweep(LoadedSpec& loaded) {
  loaded.spec.sweep.reduce_to_point();
  std::erase_if(loaded.spec.origins, [](const auto& origin) {
    return origin.first.starts_with("sweep.") && !origin.first.starts_with("sweep.stop_early.");
  });
}

tl::expected<SweepPlan, Diagnostics> plan_sweep(const LoadRequest& request,
                                                const LoadedSpec& loaded, const PlanInputs& inputs,
                                                const SweepLimits& limits) {
  SweepPlan sweep;
  sweep.max_parallel = loaded.spec.sweep.max_parallel;
  sweep.chooses_points_later = loaded.spec.sweep.is_search() && loaded.spec.sweep.points.empty();
  SweepPlanner planner(request, loaded, inputs);
  sweep.pack = static_cast<std::size_t>(loaded.spec.sweep.pack.value_or(1));
  Arrays arrays(limits.max_array_size, sweep.pack);
  auto points = sweep_points(loaded.spec.sweep);
  if (points.size() < count_points(loaded.spec.sweep))
    return tl::unexpected(Diagnostics{too_narrow_error(loaded, points.size())});
  sweep.points.reserve(points.size());
  for (std::size_t i = 0; i < points.size() && !planner.has_enough_errors(); ++i) {
    LoadedSpec* point_spec = planner.load(points[i], i);
    if (point_spec == nullptr) continue;
    // All points wait for the same jobs. Since the spec was loaded, the caller may have replaced
    // the names of runs in `after` by paths.
    point_spec->spec.after = loaded.spec.after;
    const auto plan = planner.plan(*point_spec, points[i], i);
    if (!plan) continue;
    auto script = render_script(*plan);
    if (!script) {
      planner.refuse(script.error().message, points[i], i);
      continue;
    }
    for (const SweptValue& value : points[i]) {
      if (std::find(sweep.keys.begin(), sweep.keys.end(), value.key) == sweep.keys.end())
        sweep.keys.push_back(value.key);
    }
    PlannedPoint& point = sweep.points.emplace_back();
    point.values = std::move(points[i]);
    point.script = std::move(*script);
    point.resolved = resolved_yaml(*point_spec);
    point.parameters = parameters_json(*point_spec);
    point.requested = plan->requested;
    point.uses_trainer = plan->uses_trainer();
    if (inputs.target != Target::kSlurm) continue;
    if (sweep.pack == 1) {
      arrays.add_point(point, *plan, {});
    } else if (const auto job = planner.plan_packed(*point_spec, point.values, i, sweep.pack)) {
      arrays.add_point(point, *job, slurm_variables_of_point(*point_spec));
    }
  }
  if (!planner.errors().empty()) return tl::unexpected(std::move(planner.errors()));
  // A search program may propose a point again.
  if (!loaded.spec.sweep.is_search()) {
    if (auto repeated = errors_of_repeated_points(loaded, sweep.points); !repeated.empty())
      return tl::unexpected(std::move(repeated));
  }
  auto rendered = arrays.render(sweep.max_parallel);
  if (!rendered)
    return tl::unexpected(
        Diagnostics{{Diagnostic::Severity::kError, Origin{}, rendered.error().message, ""}});
  sweep.arrays = std::move(*rendered);
  return sweep;
}

bool SweepPlan::uses_trainer() const {
  return std::any_of(points.begin(), points.end(),
                     [](const PlannedPoint& point) { return point.uses_trainer; });
}

std::optional<double> sum_of_hours(const SweepPlan& sweep,
                                   std::optional<double> (*hours)(const Requested&)) {
  double sum = 0;
  for (const PlannedPoint& point : sweep.points) {
    const auto one = hours(point.requested);
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum;
}

}  // namespace dlrun
