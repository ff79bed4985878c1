#include "launcher/spec/known_servers.h"

#include <algorithm>

#include "common/text.h"
#include "launcher/spec/sites.h"

namespace dlrun {

std::vector<RestServer> KnownServers::listed() const {
  std::vector<RestServer> entries;
  for (const std::string& name : site_names(config_dirs_)) {
    for (RestServer& server : servers_of_site(name, config_dirs_, env_))
      entries.push_back(std::move(server));
  }
  // Entries with the same url are one server, which has one version and one accepted owner.
  for (RestServer& server : entries) {
    for (const auto field : {&RestServer::version, &RestServer::accepted_owner}) {
      const auto other = std::find_if(entries.begin(), entries.end(), [&](const RestServer& entry) {
        return entry.url == server.url && !(entry.*field).empty();
      });
      if ((server.*field).empty() && other != entries.end()) server.*field = (*other).*field;
    }
  }
  return entries;
}

std::vector<RestServer> KnownServers::all() const {
  std::vector<RestServer> servers;
  for (RestServer& server : listed()) {
    const bool is_repeated =
        std::any_of(servers.begin(), servers.end(),
                    [&](const RestServer& other) { return other.url == server.url; });
    if (!is_repeated) servers.push_back(std::move(server));
  }
  return servers;
}

Result<RestServer> KnownServers::find(const RestServer& wanted) const {
  const RestServer* with_other_token = nullptr;
  const std::vector<RestServer> entries = listed();
  for (const RestServer& server : entries) {
    if (server.url != wanted.url) continue;
    if (wanted.token_file.empty() || wanted.token_file == server.token_file) return server;
    with_other_token = &server;
  }
  if (with_other_token != nullptr) {
    return fail(
        Errc::kInvalid,
        "slurmrestd at {}: the token file {} is not the one that your configuration lists "
        "for it ({}); nothing is sent",
        printable(wanted.url), printable(wanted.token_file),
        with_other_token->token_file.empty() ? "none" : printable(with_other_token->token_file));
  }
  const std::string token = wanted.token_file.empty()
                                ? ""
                                : fmt::format(", token_file: \"{}\"", printable(wanted.token_file));
  return fail(Errc::kInvalid,
              "slurmrestd at {0}: your configuration does not list it, and neither a run nor a "
              "spec alone may choose who gets your token; nothing is sent. If the server "
              "belongs to your site, put this line into a site "
              "file, such as ~/.config/dlrun/sites/NAME.yaml: slurmrestd: [{{url: \"{0}\"{1}}}]",
              printable(wanted.url), token);
}

}  // namespace dlrun
