/* How long RANKS threads take that each read READ bytes of their own and write WRITE bytes at the same time,
 * past the caches (with AVX-512): what no collective with that traffic can beat. Prints microseconds.
 * cc -O2 -march=native -pthread memory_floor.c -o memory_floor; ./memory_floor RANKS READ WRITE SECONDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { kRanksMax = 64, kTimesMax = 400, kLine = 64 };

static size_t read_bytes, write_bytes;
static int ranks, rounds;
static atomic_int arrived;
static double began[kTimesMax], ended[kRanksMax][kTimesMax];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Lines are copied as long as there are both; the rest is only read, or only written. */
static void pass(char* target, const char* source) {
  const size_t both = read_bytes < write_bytes ? read_bytes : write_bytes;
  size_t at = 0;
#if defined(__AVX512F__)
  __m512i sum = _mm512_setzero_si512();
  for (; at < both; at += kLine)
    _mm512_stream_si512((__m512i*)(target + at), _mm512_load_si512((const __m512i*)(source + at)));
  for (size_t more = at; more < read_bytes; more += kLine)
    sum = _mm512_xor_si512(sum, _mm512_load_si512((const __m512i*)(source + more)));
  for (; at < write_bytes; at += kLine) _mm512_stream_si512((__m512i*)(target + at), sum);
  _mm512_stream_si512((__m512i*)target, sum);
  _mm_sfence();
#else
  memcpy(target, source, both);
  memset(target + both, 1, write_bytes - both);
  for (at = both; at < read_bytes; at += kLine) target[0] ^= source[at];
#endif
}

static void* work(void* argument) {
  const int rank = (int)(size_t)argument;
  char* source = aligned_alloc(kLine, read_bytes + kLine);
  char* target = aligned_alloc(kLine, write_bytes + kLine);
  memset(source, 1, read_bytes);
  memset(target, 1, write_bytes);
  for (int round = 0; round < rounds; ++round) {
    if (atomic_fetch_add(&arrived, 1) + 1 == ranks * (round + 1)) began[round] = now();
    while (atomic_load(&arrived) < ranks * (round + 1)) sched_yield();
    pass(target, source);
    ended[rank][round] = now();
  }
  free(source);
  free(target);
  return NULL;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  ranks = atoi(argv[1]);
  read_bytes = strtoull(argv[2], NULL, 10) / kLine * kLine;
  write_bytes = strtoull(argv[3], NULL, 10) / kLine * kLine;
  if (ranks < 1 || ranks > kRanksMax) return 2;
  /* As many rounds as the seconds allow at 10 GB/s and core. */
  const double one = (double)(read_bytes + write_bytes) * ranks / 20e9;
  rounds = (int)(atof(argv[4]) / one);
  rounds = rounds < 5 ? 5 : rounds > kTimesMax ? kTimesMax : rounds;
  pthread_t threads[kRanksMax];
  for (int rank = 0; rank < ranks; ++rank) pthread_create(&threads[rank], NULL, work, (void*)(size_t)rank);
  for (int rank = 0; rank < ranks; ++rank) pthread_join(threads[rank], NULL);
  double times[kTimesMax];
  for (int round = 0; round < rounds; ++round) {
    times[round] = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const double time = ended[rank][round] - began[round];
      if (time > times[round]) times[round] = time;
    }
  }
  qsort(times, (size_t)rounds, sizeof times[0], compare);
  printf("%.4f\n", times[rounds / 2] * 1e6);
  return 0;
}
