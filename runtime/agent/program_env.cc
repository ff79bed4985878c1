#include "runtime/agent/program_env.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/text.h"
#include "runtime/agent/component_options.h"

namespace dlrun::agent {
namespace {

/// Longest NAME=VALUE that execve accepts, with its final zero byte (MAX_ARG_STRLEN: 32 pages).
constexpr std::size_t kVariableLimitBytes = 128U << 10U;
/// The text in a component's program that stands for the held port.
constexpr std::string_view kPortField = "{port}";

std::string with_port(std::string word, int port) {
  const auto number = std::to_string(port);
  for (std::size_t at = 0; (at = word.find(kPortField, at)) != std::string::npos;
       at += number.size())
    word.replace(at, kPortField.size(), number);
  return word;
}

/// Sets the variables with the component's name, and with the addresses and hosts of the components
/// that have joined.
void set_component_variables(Env& env, const TemplateValues& fields) {
  env.remove_matching({"DLRUN_COMPONENT*"}, {});
  if (fields.component.empty()) return;
  env.set("DLRUN_COMPONENT", fields.component);
  for (const auto& component : fields.components) {
    if (!is_component_name(component.name)) continue;
    const auto prefix = "DLRUN_COMPONENT_" + variable_word(component.name);
    env.set(prefix + "_ADDR",
            Endpoint{component.addr, static_cast<std::uint16_t>(component.port)}.text());
    const auto hosts = dlrun::join(component.hosts, ",");
    // The kernel starts no program with a longer variable. components.json also has the list.
    if (prefix.size() + hosts.size() + sizeof "_HOSTS=" <= kVariableLimitBytes)
      env.set(prefix + "_HOSTS", hosts);
  }
}

bool any_template(const RankOptions& options, bool (Template::*asks)() const) {
  return std::any_of(options.templates.begin(), options.templates.end(),
                     [&](const EnvTemplate& variable) { return (variable.value.*asks)(); }) ||
         std::any_of(options.words.begin(), options.words.end(),
                     [&](const Template& word) { return (word.*asks)(); });
}

}  // namespace

Result<Env> program_env(const Env& agent_env, const RankOptions& options,
                        const TemplateValues& fields) {
  auto env = agent_env;
  env.remove_matching({"DLRUN_SECRET", "DLRUN_LEAD", "DLRUN_TOKEN", "DLRUN_STORE", "DLRUN_PROGRESS",
                       "DLRUN_ADDR", "DLRUN_MASTER_*", "DLRUN_HELD_PORT"},
                      {});
  // All attempts use the same folder of checkpoints, so it is directly in the run directory.
  if (const auto run = agent_env.get("DLRUN_RUN"))
    env.set("DLRUN_CHECKPOINT_DIR", std::string(*run) + "/ckpt");
  set_component_variables(env, fields);
  // For a step without GPUs, Slurm sets no list of visible GPUs. Programs would then use all GPUs
  // that they find.
  if (env.has("DLRUN_HIDES_GPUS")) {
    env.unset("DLRUN_HIDES_GPUS");
    for (const auto* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) env.set(name, "");
  }
  const auto set = [&](std::string_view name, int value) { env.set(name, std::to_string(value)); };
  set("DLRUN_RANK", fields.world.rank);
  set("DLRUN_WORLD_SIZE", fields.world.size);
  set("DLRUN_LOCAL_RANK", fields.world.local_rank);
  set("DLRUN_LOCAL_WORLD_SIZE", fields.world.local_size);
  set("DLRUN_NODE_RANK", fields.world.node_rank);
  set("DLRUN_NNODES", fields.world.nnodes);
  if (!fields.addr.empty()) env.set("DLRUN_ADDR", fields.addr);
  if (!fields.master_addr.empty()) {
    env.set("DLRUN_MASTER_ADDR", fields.master_addr);
    set("DLRUN_MASTER_PORT", fields.master_port);
  }
  for (const auto& variable : options.templates) {
    auto value = variable.value.expand(fields);
    if (const auto bytes = variable.name.size() + value.size() + 2; bytes > kVariableLimitBytes) {
      return fail(Errc::kInvalid,
                  "{} would be {} bytes for {} ranks; Linux hands a program at most {} in one "
                  "variable: start fewer ranks, or use a program that reads a file instead",
                  variable.name, bytes, fields.world.size, kVariableLimitBytes);
    }
    env.set(variable.name, value);
  }
  return env;
}

std::vector<std::string> program_argv(const RankOptions& options, const TemplateValues& fields) {
  std::vector<std::string> argv;
  for (const auto& word : options.words) argv.push_back(word.expand(fields));
  for (const auto& word : options.program)
    argv.push_back(fields.component.empty() ? word : with_port(word, fields.port));
  return argv;
}

bool needs_port(const RankOptions& options, bool is_component) {
  const bool program_does =
      is_component &&
      std::any_of(options.program.begin(), options.program.end(), [](const std::string& word) {
        return word.find(kPortField) != std::string::npos;
      });
  return program_does || any_template(options, &Template::needs_port);
}

bool needs_addresses(const RankOptions& options) {
  return any_template(options, &Template::needs_addresses);
}

Result<> check_roles(const RankOptions& options, int world_size) {
  return any_template(options, &Template::needs_roles) ? options.roles.check(world_size)
                                                       : Result<>();
}

}  // namespace dlrun::agent
