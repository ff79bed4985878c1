#include <nlohmann/json.hpp>

#include "launcher/plan/plan.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json options_json(const std::vector<PlannedOption>& options) {
  Json list = Json::array();
  for (const PlannedOption& option : options) {
    list.push_back({{"option", option.option},
                    {"value", option.value ? Json(*option.value) : Json()},
                    {"key", option.comment}});
  }
  return list;
}

[[nodiscard]] Json variables_json(const std::vector<PlannedVariable>& variables) {
  Json list = Json::array();
  for (const PlannedVariable& variable : variables) {
    list.push_back({{"name", variable.name}, {"value", variable.value}, {"key", variable.comment}});
  }
  return list;
}

[[nodiscard]] Json secrets_json(const std::vector<SecretSource>& secrets) {
  Json list = Json::array();
  for (const SecretSource& secret : secrets)
    list.push_back(
        {{"name", secret.name}, {"file", secret.file.empty() ? Json() : Json(secret.file)}});
  return list;
}

[[nodiscard]] Json number_or_null(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json();
}

[[nodiscard]] Json prologue_json(const Prologue& p) {
  Json json{{"purge_modules", p.purge_modules},
            {"use_modules", p.use_modules},
            {"load_modules", p.load_modules},
            {"module_init", p.module_init},
            {"conda_module", p.conda_module},
            {"conda_name", p.conda_name},
            {"venv", p.venv},
            {"vars", variables_json(p.vars)},
            {"driver_capabilities_image",
             p.driver_capabilities_image ? Json(*p.driver_capabilities_image) : Json()},
            {"setup", p.setup},
            {"setup_node", p.setup_node}};
  for (const auto& [name, value] :
       {std::pair("uv_project", p.uv_project), std::pair("pixi_project", p.pixi_project),
        std::pair("spack", p.spack), std::pair("eessi", p.eessi)}) {
    if (!value.empty()) json[name] = value;
  }
  if (!p.pixi_project.empty()) json["pixi_environment"] = p.pixi_environment;
  return json;
}

[[nodiscard]] Json enter_script_json(const ContainerEnterScript& enter_script) {
  Json words = Json::array();
  for (const ContainerWords& one : enter_script.words)
    words.push_back({{"text", one.text}, {"key", one.comment}});
  return {{"batch", enter_script.batch},
          {"session", enter_script.session},
          {"join", enter_script.attach},
          {"words", std::move(words)}};
}

[[nodiscard]] Json requested_json(const Requested& q) {
  return {{"nodes", number_or_null(q.nodes)},
          {"tasks", number_or_null(q.tasks)},
          {"gpus", number_or_null(q.gpus)},
          {"cpus", number_or_null(q.cpus)},
          {"time_seconds", number_or_null(q.time_seconds)}};
}

[[nodiscard]] Json program_json(const std::vector<PlannedArguments>& program) {
  Json list = Json::array();
  for (const PlannedArguments& group : program)
    list.push_back({{"words", group.arguments}, {"key", group.comment}});
  return list;
}

[[nodiscard]] Json components_json(const std::vector<PlannedComponent>& components) {
  Json list = Json::array();
  for (const PlannedComponent& component : components) {
    const LaunchPlan& plan = component.plan;
    list.push_back({{"name", component.name},
                    {"options", options_json(component.options)},
                    {"step", options_json(plan.step)},
                    {"runtime", plan.runtime},
                    {"entry", enter_script_json(plan.enter_script)},
                    {"rank_vars", variables_json(plan.rank_vars)},
                    {"rank_options", options_json(plan.rank_options)},
                    {"rank_templates", variables_json(plan.rank_templates)},
                    {"trusted", plan.program_is_bundled},
                    {"program", program_json(plan.program)}});
  }
  return list;
}

}  // namespace

std::string plan_json(const LaunchPlan& plan) {
  Json after = Json::array();
  for (const PlannedDependency& one : plan.after)
    after.push_back({{"type", one.type}, {"run", one.run}, {"key", one.key}});
  Json json{
      {"name", plan.name},
      {"target", plan.target == Target::kSlurm ? "slurm" : "local"},
      {"folder", plan.folder},
      {"snapshot", plan.takes_snapshot},
      {"runs_dir", plan.runs_dir},
      {"agent", plan.agent},
      {"clusters", plan.clusters ? Json(*plan.clusters) : Json()},
      {"server", plan.server
                     ? Json{{"url", plan.server->url}, {"token_file", plan.server->token_file}}
                     : Json()},
      {"directives", options_json(plan.directives)},
      {"after", after},
      {"output_given", plan.is_output_given},
      {"prologue", prologue_json(plan.prologue)},
      {"shares_cpus", plan.shares_cpus},
      {"step_vars", variables_json(plan.step_vars)},
      {"step", options_json(plan.step)},
      {"container", options_json(plan.container)},
      {"runtime", plan.runtime},
      {"entry", enter_script_json(plan.enter_script)},
      {"rank_vars", variables_json(plan.rank_vars)},
      {"rank_options", options_json(plan.rank_options)},
      {"rank_templates", variables_json(plan.rank_templates)},
      {"secrets", secrets_json(plan.secrets)},
      {"trusted", plan.program_is_bundled},
      {"program", program_json(plan.program)},
      {"forward_usr1", plan.forwards_usr1},
      {"lead_options", options_json(plan.lead_options)},
      {"local_ranks", plan.local_ranks},
      {"requested", requested_json(plan.requested)},
  };
  if (plan.known_bad)
    json["known_bad"] = {{"file", plan.known_bad->file}, {"seconds", plan.known_bad->seconds}};
  if (!plan.components.empty()) json["components"] = components_json(plan.components);
  for (const auto& part : plan.later_parts) json["parts"].push_back(options_json(part));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dlrun
