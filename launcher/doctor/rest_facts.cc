// Asks the configured slurmrestds for the versions of their API.
#include "launcher/doctor/cluster_facts.h"
#include "launcher/executors/rest_client.h"

namespace dlrun {

std::vector<RestServerFacts> ask_rest_servers(const std::vector<RestServer>& servers) {
  std::vector<RestServerFacts> all;
  for (const RestServer& server : servers) {
    RestServerFacts facts{server.url, {}, {}, server.version};
    if (auto served = RestClient(server).served_versions()) {
      facts.served_versions = std::move(*served);
    } else {
      facts.problem = served.error().message;
    }
    all.push_back(std::move(facts));
  }
  return all;
}

}  // namespace dlrun
