#include "launcher/spec/program_parameters.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "common/result.h"
#include "common/text.h"
#include "launcher/spec/key_help.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {
namespace {

[[nodiscard]] bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Replaces the fields of the templates by the values of one point.
class Filler {
 public:
  Filler(JobSpec& spec, const SweptTemplates& templates, const SweepPoint& point)
      : spec_(spec), templates_(templates), point_(point) {
    for (const SweptValue& value : point) {
      if (is_program_parameter(value.key)) values_.emplace(value.key, parameter_text(value));
    }
  }

  void fill() {
    fill_program(templates_.command, templates_.vars, spec_);
    for (std::size_t i = 0; i < templates_.components.size(); ++i) {
      const JobSpec& own = templates_.components[i].own;
      fill_program(own.launch.command, own.environment.vars, spec_.components[i].own);
    }
  }

  /// Reports the point's parameters whose fields are in none of the texts.
  void refuse_unused(bool is_trainer) {
    for (const SweptValue& value : point_) {
      if (!values_.contains(value.key) || used_.contains(value.key)) continue;
      refuse(origin_of(value), message_about_unused(value.key, is_trainer));
    }
  }

  [[nodiscard]] std::vector<Diagnostic> take_errors() { return std::move(errors_); }

 private:
  void refuse(const Origin& where, std::string message) {
    errors_.push_back({Diagnostic::Severity::kError, where, std::move(message), {}});
  }

  /// Fills the command and the variables of the spec, or of a component.
  void fill_program(const std::vector<std::string>& command, const NamedValues& vars,
                    JobSpec& target) {
    for (std::size_t i = 0; i < command.size(); ++i)
      put(command[i], "launch.command"_key, target.origins, target.launch.command[i]);
    for (std::size_t i = 0; i < vars.size(); ++i) {
      const auto& [name, text] = vars[i];
      put(text, "environment.vars." + name, target.origins, target.environment.vars[i].second);
    }
  }

  /// Stores the filled text in `target`, or reports an error at the origin of `key`.
  void put(std::string_view text, const std::string& key, const Origins& origins,
           std::string& target) {
    auto filled = filled_text(text);
    if (filled) {
      target = std::move(*filled);
      return;
    }
    const auto origin = origins.find(key);
    refuse(origin == origins.end() ? Origin{} : origin->second,
           fmt::format("{}: {}", key, filled.error().message));
  }

  [[nodiscard]] Result<std::string> filled_text(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
      const auto brace = std::min(text.find_first_of("{}", at), text.size());
      result += text.substr(at, brace - at);
      at = brace;
      if (at == text.size()) break;
      if (at + 1 < text.size() && text[at + 1] == text[at]) {
        result += text[at];
        at += 2;
        continue;
      }
      const auto close = text[at] == '{' ? text.find('}', at) : std::string_view::npos;
      if (close == std::string_view::npos) return fail_at_brace(text);
      DLRUN_TRY_ASSIGN(const auto value, value_of(text.substr(at + 1, close - at - 1)));
      result += value;
      at = close + 1;
    }
    return result;
  }

  [[nodiscard]] tl::unexpected<Error> fail_at_brace(std::string_view text) const {
    return fail(
        Errc::kInvalid,
        "an unpaired brace in '{}': the sweep has program parameters, so {{{}}} stands for a "
        "value; write a literal brace twice",
        printable(text.substr(0, 60)), templates_.parameter_names.front());
  }

  [[nodiscard]] Result<std::string> value_of(std::string_view name) {
    if (const auto found = values_.find(name); found != values_.end()) {
      used_.emplace(name);
      return found->second;
    }
    if (contains(templates_.parameter_names, name)) {
      // A range without sweep.random has no value. Validator::check_sweep() reports it.
      const auto& all = spec_.sweep.parameters;
      const bool is_in_parameters =
          std::any_of(all.begin(), all.end(), [&](const auto& key) { return key.key == name; });
      if (is_in_parameters) return std::string();
      return fail(Errc::kInvalid, "{{{}}} has no value: a point of the sweep does not set '{}'",
                  name, name);
    }
    // The agent fills in the port of a service.
    if (name == "port" && !templates_.components.empty()) return std::string("{port}");
    const std::vector<std::string_view> names(templates_.parameter_names.begin(),
                                              templates_.parameter_names.end());
    const auto similar = nearest(name, names);
    std::string known;
    for (const auto known_name : names) known += fmt::format(" {{{}}}", known_name);
    return fail(Errc::kInvalid,
                "'{{{}}}' is not a parameter of the sweep; {}; write a literal brace twice",
                printable(name),
                similar ? fmt::format("did you mean {{{}}}?", *similar) : "known:" + known);
  }

  /// Returns the origin of the parameter's name in sweep.parameters. For a point of sweep.points,
  /// returns the origin of the parameter's value.
  [[nodiscard]] Origin origin_of(const SweptValue& value) const {
    for (const SweptKey& key : spec_.sweep.parameters) {
      if (key.key == value.key) return key.where;
    }
    return value.where;
  }

  [[nodiscard]] static std::string message_about_unused(const std::string& name, bool is_trainer) {
    const auto key = similar_key(name);
    const bool suggests_key = key && is_trainer == key->starts_with("train.");
    if (is_trainer) {
      return fmt::format("the sweep's parameter '{0}' is used nowhere; {1}", name,
                         suggests_key ? fmt::format("did you mean the key '{}'?", *key)
                                      : fmt::format("write {{{}}} in environment.vars", name));
    }
    return fmt::format(
        "the sweep's parameter '{0}' is used nowhere; write {{{0}}} in launch.command or "
        "environment.vars{1}",
        name, suggests_key ? fmt::format(", or did you mean the key '{}'?", *key) : "");
  }

  JobSpec& spec_;
  const SweptTemplates& templates_;
  const SweepPoint& point_;
  std::map<std::string, std::string, std::less<>> values_;
  std::set<std::string, std::less<>> used_;
  std::vector<Diagnostic> errors_;
};

}  // namespace

bool is_program_parameter(std::string_view name) {
  return is_variable_name(name) && name.size() <= 64 && find_key(name) == nullptr &&
         !is_section(name);
}

SweptTemplates swept_templates(const JobSpec& spec) {
  SweptTemplates templates;
  const auto add = [&](const std::string& name) {
    if (is_program_parameter(name) && !contains(templates.parameter_names, name))
      templates.parameter_names.push_back(name);
  };
  for (const SweptKey& key : spec.sweep.parameters) add(key.key);
  for (const SweepPoint& point : spec.sweep.points) {
    for (const SweptValue& value : point) add(value.key);
  }
  if (!templates.is_given()) return templates;
  templates.command = spec.launch.command;
  templates.vars = spec.environment.vars;
  templates.components = spec.components;
  return templates;
}

std::string parameter_text(const SweptValue& value) {
  const auto document = parse_yaml(value.text);
  if (!document) return value.text;
  auto text = substitute_variables(document->at(document->root).text, Env());
  return text ? std::move(*text) : value.text;
}

std::vector<Diagnostic> fill_templates(JobSpec& spec, const SweptTemplates& templates,
                                       const SweepPoint& point, bool is_trainer,
                                       const std::set<std::string, std::less<>>& refused) {
  if (!templates.is_given()) return {};
  Filler filler(spec, templates, point);
  filler.fill();
  // A refused command or variable may contain the field of a parameter that looks unused.
  const bool may_be_used = std::any_of(refused.begin(), refused.end(), [](const auto& key) {
    return key.starts_with("launch.command"_key) || key.starts_with("environment.vars"_key);
  });
  if (!may_be_used) filler.refuse_unused(is_trainer);
  return filler.take_errors();
}

}  // namespace dlrun
