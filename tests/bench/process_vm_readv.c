/* Collectives whose long messages are read straight from the peers' private memory with process_vm_readv,
 * timed as `diji bench collective` does it, to see whether that beats slots. Prints microseconds.
 * cc -O2 -pthread process_vm_readv.c -o readv; ./readv RANKS OPERATION BYTES SECONDS
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRanksMax = 64, kTimesMax = 400, kWindow = 128 << 10 };

struct shared {
  atomic_int arrived;
  pid_t pids[kRanksMax];
  float* input[kRanksMax];
  float* output[kRanksMax];
  double times[kRanksMax];
};

static struct shared* all;
static int ranks, rank, barriers;
static size_t count, block; /* elements */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void barrier(void) {
  const int wanted = ranks * ++barriers;
  atomic_fetch_add(&all->arrived, 1);
  for (int look = 0; atomic_load(&all->arrived) < wanted; ++look) {
    if (look > 1000) sched_yield();
  }
}

static void pull(float* target, int peer, const float* source, size_t elements) {
  if (elements == 0) return;
  const struct iovec here = {target, elements * sizeof(float)};
  const struct iovec there = {(void*)source, elements * sizeof(float)};
  if (process_vm_readv(all->pids[peer], &here, 1, &there, 1, 0) != (ssize_t)here.iov_len) {
    perror("process_vm_readv");
    exit(1);
  }
}

/* Block r is folded by rank r, through a window that stays in its cache; the results go to all. */
static void all_reduce(void) {
  static float window[kWindow / sizeof(float)];
  const size_t step = sizeof window / sizeof window[0];
  float* own = all->output[rank] + rank * block;
  memcpy(own, all->input[rank] + rank * block, block * sizeof(float));
  for (size_t at = 0; at < block; at += step) {
    const size_t n = block - at < step ? block - at : step;
    for (int distance = 1; distance < ranks; ++distance) {
      const int peer = (rank + distance) % ranks;
      pull(window, peer, all->input[peer] + rank * block + at, n);
      for (size_t i = 0; i < n; ++i) own[at + i] += window[i];
    }
  }
  barrier();
}

static void call(const char* operation) {
  barrier(); /* what is read is there */
  if (strcmp(operation, "broadcast") == 0) {
    if (rank > 0) pull(all->output[rank], 0, all->output[0], count);
  } else {
    const int reduces = strcmp(operation, "all_reduce") == 0;
    if (reduces) all_reduce();
    if (!reduces) memcpy(all->output[rank] + rank * block, all->input[rank], block * sizeof(float));
    for (int distance = 1; distance < ranks; ++distance) {
      const int peer = (rank + distance) % ranks;
      pull(all->output[rank] + peer * block, peer,
           reduces ? all->output[peer] + peer * block : all->input[peer], block);
    }
  }
  barrier(); /* and the owner's again */
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  ranks = atoi(argv[1]);
  const size_t bytes = strtoull(argv[3], NULL, 10);
  const double seconds = atof(argv[4]);
  if (ranks < 2 || ranks > kRanksMax) return 2;
  count = bytes / sizeof(float);
  block = count / ranks;
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  while (rank + 1 < ranks && fork() == 0) ++rank; /* a chain: each child is the next rank */
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  all->pids[rank] = getpid();
  all->input[rank] = memset(malloc(bytes), 0, bytes);
  all->output[rank] = memset(malloc(bytes), 0, bytes);
  double times[kTimesMax], spent = 0;
  int timed = 0;
  for (int i = 0; i < 5; ++i) call(argv[2]);
  while (timed < kTimesMax && (spent < seconds || timed < 5)) {
    barrier();
    const double begin = now();
    call(argv[2]);
    all->times[rank] = now() - begin;
    barrier();
    times[timed] = 0;
    for (int other = 0; other < ranks; ++other) {
      if (all->times[other] > times[timed]) times[timed] = all->times[other];
    }
    spent += times[timed++];
  }
  qsort(times, (size_t)timed, sizeof times[0], compare);
  if (rank == 0) printf("%.4f\n", times[timed / 2] * 1e6);
  barrier();
  if (rank + 1 < ranks) wait(NULL);
  return 0;
}
