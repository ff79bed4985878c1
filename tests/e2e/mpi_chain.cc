// Passes numbers from rank 0 to the last rank. Each rank adds one and prints the result, which is
// the number of ranks so far. A rank with a wrong number exits with 1. The tests use this program
// to check MPI across nodes. Each message has 4 MiB, so that ranks of one node also use MPI's path
// for large messages.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  int host_length = 0;
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &host_length);

  std::vector<int> sums(1 << 20, 0);
  const int count = static_cast<int>(sums.size());
  if (rank > 0)
    MPI_Recv(sums.data(), count, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int& sum : sums) ++sum;
  if (rank + 1 < size) MPI_Send(sums.data(), count, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
  const int sum = sums.back();
  const bool all_sums_are_right =
      std::all_of(sums.begin(), sums.end(), [&](int each) { return each == rank + 1; });
  std::printf("rank %d of %d on %s: %d\n", rank, size, host, sum);
  MPI_Finalize();
  return all_sums_are_right ? 0 : 1;
}
