#pragma once
// Plans a job with several components. Each component is planned like a job with a single program.
// ComponentPlanner also plans everything that the components share: the request, the prologue,
// lead's options. Only launcher/plan includes this header.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/plan/planner.h"
#include "launcher/spec/component_layout.h"

namespace dlrun {

class ComponentPlanner {
 public:
  /// Both arguments must outlive this object.
  ComponentPlanner(const LoadedSpec& loaded, const PlanInputs& inputs);
  [[nodiscard]] tl::expected<LaunchPlan, std::vector<Diagnostic>> run() &&;

 private:
  /// Returns the spec from which sbatch's options are planned. For a heterogeneous job, returns the
  /// spec of the first part. For a single allocation, returns a spec that requests the same
  /// from every node: for each resource, the largest amount that one of the nodes needs. A node
  /// needs the sum of the requests of the components on it.
  [[nodiscard]] LoadedSpec make_requesting_spec() const;
  /// Plans everything that belongs to the whole job: the request, the prologue, lead's options.
  [[nodiscard]] LaunchPlan plan_whole();
  /// Adds the options of sbatch for the parts of a heterogeneous job after the first one.
  void plan_later_parts(LaunchPlan& plan);
  [[nodiscard]] PlannedComponent plan_component(std::size_t index);
  /// Returns lead's options for a component.
  [[nodiscard]] std::vector<PlannedOption> lead_options(std::size_t index) const;
  /// Returns the options of srun that limit a component's step to the nodes, CPUs, GPUs and memory
  /// of the component.
  [[nodiscard]] std::vector<PlannedOption> step_options(std::size_t index) const;
  /// Returns true for the first component that is not a service. Its progress is the progress of
  /// the run.
  [[nodiscard]] bool is_first_main(std::size_t index) const;
  /// Returns true if lead must reserve a port for the component: for a service, and for a component
  /// whose preset has the field {port}.
  [[nodiscard]] bool needs_port(std::size_t index, const LaunchPlan& plan) const;
  /// Removes from the prologue, which all components share, the variables that the component sets
  /// itself, and gives them to the component's rank agent.
  void move_own_variables(std::size_t index, LaunchPlan& plan) const;
  /// Adds a component's variables and folders to the job's prologue, and its step variables to the
  /// job's step variables.
  void merge_prologue(LaunchPlan& plan, const PlannedComponent& component);
  /// Gives the job's plan the bash lines with which its components make their containers. Refuses
  /// components whose lines differ. Also gives the plan the container in which an interactive
  /// session starts.
  void merge_containers(LaunchPlan& plan);
  /// Returns the comment that shows a key in the script: "trainer: nodes" if the component itself
  /// sets the key, else the full key, such as "resources.nodes".
  [[nodiscard]] std::string comment_of_key(std::size_t index, std::string_view key) const;
  /// Adds the errors to errors_, each once. prefix: the text that is put before each message; ""
  /// for errors of the whole job.
  void add_errors(std::vector<Diagnostic> errors, std::string_view prefix);

  const LoadedSpec& loaded_;
  const PlanInputs& inputs_;
  std::vector<LoadedSpec> specs_;
  ComponentLayout layout_;
  LoadedSpec requesting_spec_;  ///< from make_requesting_spec()
  bool may_have_gpus_ = false;  ///< one of the components may have GPUs
  std::vector<Diagnostic> errors_;
  /// For each of errors_: its line in the spec, and its message without the component's name.
  std::set<std::pair<int, std::string>> reported_;
};

}  // namespace dlrun
