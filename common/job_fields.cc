#include "common/job_fields.h"

#include "common/text.h"

namespace dlrun {

std::string fields_of_jobs(std::string_view output) {
  // Slurm has kept this order since 22.05: the line of JobId ends with the job's name, UserId
  // begins a later line, and Command is the first of the lines at the end whose content users
  // choose.
  constexpr std::string_view kFirstLine = "JobId=", kLineAfterName = "   UserId=",
                             kFirstUserText = "   Command=";
  enum class At { kName, kFields, kUserTexts } at = At::kFields;
  std::string fields;
  for (const auto line : split(output, '\n')) {
    if (line.starts_with(kFirstLine)) at = At::kName;
    if (at == At::kName && line.starts_with(kLineAfterName)) at = At::kFields;
    if (at == At::kFields && line.starts_with(kFirstUserText)) at = At::kUserTexts;
    if (at != At::kFields) continue;
    fields += line;
    fields += '\n';
  }
  return fields;
}

}  // namespace dlrun
