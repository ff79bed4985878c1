// Tests which backend a name or "auto" selects, and the message if there is none. tests/ranks tests
// the collectives of several ranks.

#include <algorithm>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "common/env.h"
#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "runtime/comm/module.h"
#include "tests/ranks/collective_checks.h"

namespace dlrun {

TEST_CASE("single: all collectives are right in a world of one, for which auto selects single") {
  for (const char* backend : {"single", "auto"}) {
    auto comm = make_communicator(backend, {});
    REQUIRE(comm);
    CHECK((*comm)->name() == "single");
    for (const std::string& failure : check_collectives(**comm)) FAIL_CHECK(failure);
  }
}

TEST_CASE("single: a larger world is refused") {
  CommunicatorOptions options;
  options.world.size = 2;
  const auto comm = make_communicator("single", options);
  REQUIRE_FALSE(comm);
  CHECK(comm.error().code == Errc::kInvalid);
}

TEST_CASE("backends: the error for an unknown name suggests the nearest name, or lists all names") {
  const auto similar = make_communicator("glooo", {});
  REQUIRE_FALSE(similar);
  CHECK(similar.error().code == Errc::kUsage);
  CHECK(similar.error().message.find("did you mean 'gloo'?") != std::string::npos);
  const auto unlike = make_communicator("carrier pigeon", {});
  REQUIRE_FALSE(unlike);
  CHECK(unlike.error().message.find("auto, single, shm, mpi, gloo, nccl and rccl") !=
        std::string::npos);
}

TEST_CASE("rccl: without RCCL the error has the name of the library and a remedy") {
  if (void* const library = ::dlopen("librccl.so.1", RTLD_NOW); library != nullptr) {
    MESSAGE("skipped: this machine has RCCL");
    ::dlclose(library);
    return;
  }
  const auto comm = make_communicator("rccl", {});
  REQUIRE_FALSE(comm);
  CHECK(comm.error().code == Errc::kUnavailable);
  CHECK(comm.error().message.find("librccl.so.1") != std::string::npos);
  CHECK(comm.error().message.find("LD_LIBRARY_PATH") != std::string::npos);
}

TEST_CASE("backends: a rank outside its world is refused") {
  for (const auto& [rank, size] : {std::pair{2, 2}, {-1, 2}, {0, 0}}) {
    CommunicatorOptions options;
    options.world.rank = rank;
    options.world.size = size;
    CHECK(make_communicator("auto", options).error().code == Errc::kInvalid);
  }
}

TEST_CASE("backends: the error of auto without a launcher and a store says what is missing") {
  CommunicatorOptions options;
  options.world.size = 3;
  const auto comm = make_communicator("auto", options);
  REQUIRE_FALSE(comm);
  CHECK(comm.error().code == Errc::kUnavailable);
  CHECK(comm.error().message.find("no way to reach the other 2 ranks") != std::string::npos);
  CHECK(comm.error().message.find("DLRUN_STORE is not set") != std::string::npos);
}

TEST_CASE(
    "backends: an MPI launcher is recognised by the variables of PMIx and Open MPI, not by "
    "PMI_SIZE") {
  CHECK_FALSE(is_under_mpi_launcher(Env()));
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE"}) {
    Env env;
    env.set(name, "1");
    CHECK(is_under_mpi_launcher(env));
  }
  Env pmi2;
  pmi2.set("PMI_SIZE", "2");
  CHECK_FALSE(is_under_mpi_launcher(pmi2));
}

TEST_CASE("backends: a module that is missing or from another build is refused with the reason") {
  const auto missing = load_comm_backend("none");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == Errc::kUnavailable);
  CHECK(missing.error().message.find("lib/dlrun/dlrun-comm-none.so does not exist") !=
        std::string::npos);
  const auto stale = load_comm_backend("stale");
  REQUIRE_FALSE(stale);
  CHECK(stale.error().code == Errc::kUnavailable);
  CHECK(stale.error().message.find("was built for dlrun 0.0.0-another") != std::string::npos);
}

}  // namespace dlrun
