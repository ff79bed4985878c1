// Fuzzes a spec: loads and expands it, plans it, and renders it for Slurm and for this machine.
//
// If an accepted spec can be planned and rendered for Slurm, its script must begin with #!/bin/bash
// and have no NUL byte, and its resolved spec must render to the same script.

#include "common/text.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "launcher/spec/load.h"
#include "tests/fuzz/fuzz.h"

using namespace dlrun;

namespace {

LoadRequest request_for(std::string text) {
  LoadRequest request;
  request.file = "/nowhere/exp.yaml";
  request.text = std::move(text);
  request.current_dir = "/nowhere";
  request.env.set("HOME", "/home/user");
  request.env.set("SCRATCH", "/scratch/user");
  return request;
}

const PlanInputs kSlurm{"/runs", "/runs/.agents/3f2a/dlrun-agent",
                        "/runs/.agents/3f2a/dlrun-trainer", Target::kSlurm};
const PlanInputs kLocal{"/runs", "/runs/.agents/3f2a/dlrun-agent",
                        "/runs/.agents/3f2a/dlrun-trainer", Target::kLocal};

/// Returns the script without the comments at the ends of its lines. They show the keys of the
/// spec, and differ for the resolved spec.
std::string without_key_comments(std::string_view script) {
  std::string result;
  for (const auto line : split(script, '\n')) {
    result += line.substr(0, line.rfind(" # "));
    while (result.ends_with(' ')) result.pop_back();
    result += '\n';
  }
  return result;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto loaded = load_spec(request_for(std::string(fuzz::text_of(data, size))));
  if (!loaded) {
    fuzz::expect(!loaded.error().empty(), "a refused spec has at least one error");
    fuzz::expect(!format_diagnostics(loaded.error()).empty(), "the errors have a text");
    return 0;
  }
  if (const auto local = make_plan(*loaded, kLocal))
    fuzz::expect(!render_local_script(*local).empty(), "a local plan renders to a script");
  const auto plan = make_plan(*loaded, kSlurm);
  if (!plan) return 0;
  const auto script = render_script(*plan);
  if (!script) return 0;
  fuzz::expect(script->starts_with("#!/bin/bash"), "the script starts with #!/bin/bash");
  fuzz::expect(script->find('\0') == std::string::npos, "the script has no NUL byte");
  std::ignore = plan_json(*plan);
  std::ignore = render_interactive(*plan, {}, "/runs/s.sh");

  const auto again = load_spec(request_for(resolved_yaml(*loaded)));
  fuzz::expect(again.has_value(), "a resolved spec is valid");
  const auto plan_again = make_plan(*again, kSlurm);
  fuzz::expect(plan_again.has_value(), "a resolved spec can be planned");
  const auto script_again = render_script(*plan_again);
  fuzz::expect(script_again && without_key_comments(*script_again) == without_key_comments(*script),
               "a resolved spec renders to the same script");
  return 0;
}
