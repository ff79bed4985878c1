// The backend for container.runtime: none. Programs run directly on the node.

#include "container/backends.h"

namespace dlrun {
namespace {

class NoContainer final : public ContainerBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "none"; }
  [[nodiscard]] std::string_view unmountable_characters() const override { return ""; }
  [[nodiscard]] std::vector<ContainerProblem> problems(const ContainerSpec&) const override {
    return {};
  }
  [[nodiscard]] std::vector<ContainerOption> step_options(
      const StepContainer&, std::vector<UserSrunOption>&) const override {
    return {};
  }
};

}  // namespace

const ContainerBackend& no_container_backend() {
  static const NoContainer backend;
  return backend;
}

}  // namespace dlrun
