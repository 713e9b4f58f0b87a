/* The mean of a vector over all ranks of a job, as data-parallel training takes it of gradients: a whole
 * program over collective.h, errors included.
 *
 *     diji launch -n 4 mean_over_ranks [ELEMENTS]
 *
 * Exit codes are those of the command diji. */
#include "diji/collective.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what, diji_status_code status) {
  fprintf(stderr, "mean_over_ranks: %s: %s\n", what, diji_error_message());
  if (diji_error_rank() >= 0) {
    fprintf(stderr, "mean_over_ranks: rank %d on %s, process %lld, call %lld\n", (int)diji_error_rank(),
            diji_error_host(), (long long)diji_error_pid(), (long long)diji_error_sequence());
  }
  return (int)status;
}

/* In two halves that are in flight at once. */
static int take_mean(diji_comm* comm, float* gradients, int64_t count) {
  diji_work* works[2] = {NULL, NULL};
  int failed = DIJI_STATUS_OK;
  for (int half = 0; half < 2 && !failed; ++half) {
    const int64_t begin = half == 0 ? 0 : count / 2;
    float* part = gradients + begin;
    const diji_call call = {.struct_size = sizeof call,
                            .operation = DIJI_ALL_REDUCE,
                            .input = part,
                            .output = part, /* in place */
                            .count = half == 0 ? count / 2 : count - begin,
                            .dtype = DIJI_F32,
                            .reduction = DIJI_REDUCE_AVG};
    const diji_status_code started = diji_start(comm, &call, 1, &works[half]);
    if (started != DIJI_STATUS_OK) failed = fail("all_reduce", started);
  }
  /* Here a trainer would compute; the buffers are borrowed until the works are over. */
  for (int half = 0; half < 2; ++half) {
    if (works[half] == NULL) continue;
    const diji_status_code done = diji_work_wait(works[half], -1);
    if (done != DIJI_STATUS_OK && !failed) failed = fail("all_reduce", done);
    diji_work_free(works[half]);
  }
  return failed;
}

int main(int argc, char** argv) {
  char* end = NULL;
  errno = 0;
  const long long count = argc > 1 ? strtoll(argv[1], &end, 10) : 1000000;
  if (argc > 2 || (end != NULL && *end != '\0') || errno != 0 || count < 1 || count > INT64_MAX / 8) {
    fprintf(stderr, "usage: mean_over_ranks [ELEMENTS]\n");
    return DIJI_STATUS_USAGE;
  }
  float* gradients = malloc((size_t)count * sizeof *gradients);
  if (gradients == NULL) {
    fprintf(stderr, "mean_over_ranks: no memory for %lld elements\n", count);
    return DIJI_STATUS_ENVIRONMENT;
  }
  diji_comm* comm;
  const diji_status_code joined = diji_comm_create(NULL, &comm);
  if (joined != DIJI_STATUS_OK) {
    free(gradients);
    return fail("the start", joined);
  }
  const int rank = diji_comm_rank(comm);
  const int world = diji_comm_world(comm);
  for (int64_t i = 0; i < count; ++i) gradients[i] = (float)(rank + i % 3);
  int status = take_mean(comm, gradients, count);
  for (int64_t i = 0; status == DIJI_STATUS_OK && i < count; ++i) {
    if (gradients[i] == (float)(world - 1) / 2 + (float)(i % 3)) continue;
    fprintf(stderr, "mean_over_ranks: element %lld is %g\n", (long long)i, (double)gradients[i]);
    status = DIJI_STATUS_FAILED;
  }
  if (status == DIJI_STATUS_OK && rank == 0)
    printf("the mean of %lld elements over %d ranks (%s)\n", count, world, diji_comm_transports(comm));
  diji_comm_free(comm);
  free(gradients);
  return status;
}
