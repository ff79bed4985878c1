// Passes a number around all ranks, each adding one, and prints who took part: what testbed.bats asks of MPI across
// nodes.
#include <cstdio>

#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  int length = 0;
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &length);

  int sum = 0;
  if (rank > 0) MPI_Recv(&sum, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ++sum;
  if (rank + 1 < size) MPI_Send(&sum, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
  std::printf("rank %d of %d on %s: %d\n", rank, size, host, sum);
  MPI_Finalize();
  return sum == rank + 1 ? 0 : 1;
}
