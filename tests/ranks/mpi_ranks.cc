// One rank of the MPI tests, started by mpirun or srun:
//
//   mpi_ranks SIZE TEST
//
// TEST: collectives, mismatch N, late_rank, one_processor, one_node, no_launcher or mpi_of_program.
// SIZE is the world size requested from the launcher. The test fails if the launcher starts a world
// of another size, such as one rank, because the test would then check less. no_launcher runs
// without a launcher and ignores SIZE.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>

#include "common/env.h"
#include "common/processors.h"
#include "common/text.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/collective_checks.h"

namespace {

using namespace dlrun;

/// Prints the failures. Returns the exit code.
int report(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) std::fputs((failure + "\n").c_str(), stderr);
  return failures.empty() ? 0 : 1;
}

/// Checks that the backend refuses a world of two without a launcher, because MPI then has a world
/// of one. The error must name the remedy.
int check_no_launcher() {
  CommunicatorOptions options;
  options.world = {.rank = 0, .size = 2};
  const auto comm = make_communicator("mpi", options);
  if (comm) return report({"a world of two was made from one process"});
  const bool is_clear = comm.error().code == Errc::kInvalid &&
                        comm.error().message.find("srun --mpi=pmix") != std::string::npos;
  return report(is_clear ? std::vector<std::string>{}
                         : std::vector<std::string>{comm.error().message});
}

/// Checks that a rank leaves the processor to others while it waits for a late rank.
int check_late_rank(Communicator& comm) {
  constexpr auto kLate = std::chrono::milliseconds(600);
  if (auto met = comm.barrier(); !met) return report({met.error().message});
  if (comm.rank() == 0) std::this_thread::sleep_for(kLate);
  std::vector<float> values(1000, 1.0F);
  const std::clock_t before = std::clock();
  auto request = comm.start_all_reduce(std::span(values), ReduceOp::kSum);
  if (!request) return report({request.error().message});
  if (auto done = request->wait(); !done) return report({done.error().message});
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  if (comm.rank() != 0 && seconds > std::chrono::duration<double>(kLate).count() / 2) {
    return report({fmt::format("rank {} used the processor for {:.2f} s while it waited for 0.6 s",
                               comm.rank(), seconds)});
  }
  return 0;
}

/// Checks that the backend uses the MPI that the program has started, does not finalise it, and
/// fails after the program has finalised it.
int check_mpi_of_program(const CommunicatorOptions& options) {
  MPI_Init(nullptr, nullptr);
  {
    const auto comm = make_communicator("mpi", options);
    if (!comm) return report({comm.error().message});
    if (const int code = report(check_collectives(**comm)); code != 0) return code;
  }
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0) return report({"the backend has finalised the program's MPI"});
  const auto again = make_communicator("mpi", options);
  if (!again) return report({again.error().message});
  MPI_Finalize();  // The destructor of `again` runs later and must not call MPI.
  const auto after_finalize = make_communicator("mpi", options);
  return report(after_finalize ? std::vector<std::string>{"MPI was used after its end"}
                               : std::vector<std::string>{});
}

/// Binds this process to the first of its processors.
void bind_to_first_processor() {
  const ProcessorSet usable = own_processors();
  std::size_t first = 0;
  while (first + 1 < usable.size() && !usable[first]) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

/// Checks that dlrun has set the variable that makes ranks on the same processor yield the
/// processor to each other, however many processors the machine has.
int check_one_processor() {
  if (Env::of_process().get("OMPI_MCA_mpi_yield_when_idle").value_or("") == "1") return 0;
  return report({"ranks that share a processor do not yield"});
}

/// Checks that dlrun sets up MPI to use no network if all ranks are on one node, and does not
/// replace a variable that the user has set: the test is started with another OMPI_MCA_btl than
/// dlrun's.
int check_one_node() {
  const Env now = Env::of_process();
  const auto is = [&](const char* name, std::string_view value) {
    return now.get(name).value_or("") == value;
  };
  if (is("OMPI_MCA_pml", "ob1") && is("OMPI_MCA_btl", "self,tcp") && is("OMPI_MCA_osc", "^ucx"))
    return 0;
  return report({fmt::format("pml {}, btl {}, osc {}", now.get("OMPI_MCA_pml").value_or("none"),
                             now.get("OMPI_MCA_btl").value_or("none"),
                             now.get("OMPI_MCA_osc").value_or("none"))});
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2)
    return report(
        {"usage: mpi_ranks SIZE collectives|mismatch N|late_rank|one_processor|one_node|"
         "no_launcher|mpi_of_program"});
  if (arguments[1] == "no_launcher") return check_no_launcher();
  const Env env = Env::of_process();
  const auto world = read_world(env, ProcessKind::kProgram);
  if (!world) return report({world.error().message});
  if (world->size != parse_int(arguments[0])) {
    return report(
        {fmt::format("the launcher made a world of {}, not of {}", world->size, arguments[0])});
  }
  CommunicatorOptions options;
  options.world = *world;
  options.is_under_mpi_launcher = is_under_mpi_launcher(env);
  if (arguments[1] == "mpi_of_program") return check_mpi_of_program(options);
  // The check of a call is itself a blocking all-reduce, which would wait for the late rank in
  // place of the tested call.
  options.calls_to_check = arguments[1] == "late_rank" ? 0 : 100;
  if (arguments[1] == "one_processor") {
    ::unsetenv("OMPI_MCA_mpi_yield_when_idle");  // mpirun may have set it
    bind_to_first_processor();
  }
  // "auto" must detect the launcher, except in a world of one, which needs none.
  auto comm = make_communicator(world->size == 1 ? "mpi" : "auto", options);
  if (!comm) return report({comm.error().message});
  if ((*comm)->name() != "mpi") return report({fmt::format("auto chose {}", (*comm)->name())});
  if (arguments[1] == "collectives") return report(check_collectives(**comm));
  if (arguments[1] == "mismatch" && arguments.size() == 3) {
    const auto which = parse_int(arguments[2]);
    if (!which || *which < 0 || *which >= std::ssize(kMismatches))
      return report({fmt::format("mismatch {}: expected 0 to {}", arguments[2],
                                 std::ssize(kMismatches) - 1)});
    return report(check_mismatch(**comm, kMismatches[*which]));
  }
  if (arguments[1] == "one_node") return check_one_node();
  if (arguments[1] == "one_processor") return check_one_processor();
  if (arguments[1] == "late_rank") return check_late_rank(**comm);
  return report({"unknown test, or mismatch without N"});
}
