/* One collective of one size over MPI, timed as `diji bench collective` does it; prints microseconds on rank
 * 0. mpicc -O2 mpi_collectives.c -o mpi_collectives; mpirun -n 2 ./mpi_collectives all_reduce 1048576 0.25
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void call(const char* operation, const float* input, float* output, int count, int ranks) {
  const int block = count / ranks > 0 ? count / ranks : 1;
  if (strcmp(operation, "all_reduce") == 0)
    MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (strcmp(operation, "reduce_scatter") == 0)
    MPI_Reduce_scatter_block(input, output, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else if (strcmp(operation, "all_gather") == 0)
    MPI_Allgather(input, block, MPI_FLOAT, output, block, MPI_FLOAT, MPI_COMM_WORLD);
  else
    MPI_Bcast(output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t bytes = (size_t)atol(argv[2]);
  const double seconds = atof(argv[3]);
  const int count = (int)(bytes / sizeof(float));
  /* Written: memory that only was allocated is one page of zeros, which is read from the nearest cache. */
  const size_t allocated = bytes + 64 * (size_t)ranks;
  float* input = memset(malloc(allocated), 1, allocated);
  float* output = memset(malloc(allocated), 1, allocated);
  const int inner = bytes <= 4096 ? 20 : 1;
  double times[400], spent = 0;
  int timed = 0, stop = 0;
  for (int i = 0; i < 5; ++i) call(argv[1], input, output, count, ranks);
  while (!stop) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < inner; ++i) call(argv[1], input, output, count, ranks);
    const double mean = (MPI_Wtime() - begin) / inner;
    double slowest;
    MPI_Allreduce(&mean, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times[timed++] = slowest;
    spent += slowest * inner;
    stop = timed == 400 || (spent > seconds && timed >= 5);
    MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  qsort(times, (size_t)timed, sizeof times[0], compare);
  if (rank == 0) printf("%.4f\n", times[timed / 2] * 1e6);
  MPI_Finalize();
  return 0;
}
