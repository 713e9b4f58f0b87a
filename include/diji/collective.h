/* Ranks that work together, for programs: collective operations as in MPI and NCCL. C99.
 *
 *     diji_comm* comm;
 *     if (diji_comm_create(NULL, &comm) != DIJI_STATUS_OK) puts(diji_error_message());
 *     diji_all_reduce(comm, x, y, count, DIJI_F32, DIJI_REDUCE_SUM);
 *     diji_comm_free(comm);
 *
 * Order: every rank makes the same calls in the same order. There are no streams: a call begins when it is
 * made, calls that are handed over (diji_start) and calls made on the spot follow each other in the order in
 * which they were named. A call returns when this rank's part is done, or with an error; it never waits past
 * its time-out. Success here does not say that the others succeeded. Times are microseconds; 11 days are the
 * longest, what is above counts as that.
 *
 * Ownership: buffers are host memory and stay the caller's. They are borrowed until the call returns, or
 * until the work is over, also where it fails. Counts are elements, never bytes. Input and output do not
 * overlap, or are in place: the same address (all_reduce, reduce, broadcast, scan, exscan, all_to_all), or
 * the own block inside of the other side (all_gather, reduce_scatter, gather, scatter). Communicators may be
 * freed in any order, and works after theirs. A function that fails has made nothing.
 *
 * Threads: one call at a time on a communicator (a second one is an error), several communicators at once
 * (diji_comm_dup), as MPI_THREAD_MULTIPLE with a communicator a thread. Works may be waited for, and
 * diji_comm_abort called, by any thread. After fork() a child has no communicators.
 *
 * After an error of a call other than DIJI_STATUS_USAGE a communicator is only good for diji_comm_shrink,
 * diji_comm_abort and diji_comm_free; what was handed over to it ends with an error too. Errors are read as
 * in diji.h, with the fields below.
 */
#ifndef DIJI_COLLECTIVE_H
#define DIJI_COLLECTIVE_H

#include "diji/diji.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum diji_operation {
  DIJI_ALL_REDUCE,
  DIJI_ALL_GATHER,
  DIJI_REDUCE_SCATTER,
  DIJI_BROADCAST,
  DIJI_REDUCE,
  DIJI_GATHER,
  DIJI_SCATTER,
  DIJI_ALL_TO_ALL,
  DIJI_SCAN,
  DIJI_EXSCAN, /* rank 0's output is left as it was */
  DIJI_BARRIER,
  DIJI_SEND,
  DIJI_RECV
} diji_operation;

/* Integers wrap; averages of integers are rounded toward zero; a NaN wins in min and max; bit operations not
 * for floats. 16-bit and 8-bit floats are combined in f32 and rounded once. */
typedef enum diji_reduction {
  DIJI_REDUCE_SUM,
  DIJI_REDUCE_AVG,
  DIJI_REDUCE_PROD,
  DIJI_REDUCE_MIN,
  DIJI_REDUCE_MAX,
  DIJI_REDUCE_PREMUL_SUM, /* each rank's values times its `factor` first */
  DIJI_REDUCE_BAND,
  DIJI_REDUCE_BOR,
  DIJI_REDUCE_BXOR,
  DIJI_REDUCE_LAND,
  DIJI_REDUCE_LOR,
  DIJI_REDUCE_LXOR
} diji_reduction;

typedef struct diji_comm diji_comm;
typedef struct diji_work diji_work;
typedef struct diji_prepared diji_prepared;
typedef struct diji_creation diji_creation;

typedef enum diji_error_mode {
  DIJI_ERRORS_RETURN, /* calls return them */
  DIJI_ERRORS_ABORT   /* the first that ends a communicator is said on standard error and ends the process */
} diji_error_mode;

typedef struct diji_comm_options {
  uint32_t struct_size; /* sizeof(diji_comm_options) */
  diji_error_mode error_mode;
  int64_t timeout_us;    /* of calls that name none, and of the start; 0: DIJI_TIMEOUT, else 120 s */
  int64_t warn_after_us; /* a rank that waits so long says once for whom; 0: DIJI_WARN_AFTER, else 5 s */
  /* Called once, by the thread whose call met it, with the error that ended the communicator, before that
   * call returns it: for a call that was handed over, a thread of the communicator's own. May call
   * diji_comm_abort and nothing else here. Null: none. */
  void (*on_failure)(void* context, const char* message);
  void* context;
} diji_comm_options;

/* Meets the other ranks of this process's job, of which a launcher has left word in the environment (`diji
 * launch`, torchrun, PMIx or PMI); without one a world of one. `options` may be null. Free with
 * diji_comm_free. Errors: a rank that never arrives, by name; another version of diji. */
DIJI_API diji_status_code diji_comm_create(const diji_comm_options* options, diji_comm** comm);
/* The same on a thread of its own; returns at once. Give it back with diji_creation_wait or
 * diji_creation_free. */
DIJI_API diji_status_code diji_comm_start_create(const diji_comm_options* options, diji_creation** creation);
/* 1 when diji_creation_wait would not wait. */
DIJI_API int diji_creation_done(const diji_creation* creation);
/* Waits and frees `creation`, also where it failed. Errors: those of diji_comm_create. */
DIJI_API diji_status_code diji_creation_wait(diji_creation* creation, diji_comm** comm);
/* Gives it up: waits until the start has ended (at most its time-out) and frees what it made. Null is fine.
 */
DIJI_API void diji_creation_free(diji_creation* creation);

/* Waits for what was handed over; no other thread may be in a call of it. Null is fine. */
DIJI_API void diji_comm_free(diji_comm* comm);
DIJI_API int32_t diji_comm_rank(const diji_comm* comm);
DIJI_API int32_t diji_comm_world(const diji_comm* comm);
/* "shm", "tcp", "shm+tcp"; lives as long as the communicator. */
DIJI_API const char* diji_comm_transports(const diji_comm* comm);

/* All ranks call it. Ranks of one `color` form a communicator, ordered by `key`, then by rank; a color below
 * 0: *part is null. It has the options of `comm`, the callback too, as those below have. A part lies on one
 * host: else DIJI_STATUS_INPUT, and `comm` stays good. */
DIJI_API diji_status_code diji_comm_split(diji_comm* comm, int32_t color, int32_t key, diji_comm** part);
/* All ranks call it: the same ranks again, for another thread. */
DIJI_API diji_status_code diji_comm_dup(diji_comm* comm, diji_comm** copy);
/* After a failure: the ranks that are alive and call this within the time-out (0: the communicator's) form a
 * new communicator. Errors: usage, where no rank has failed; fewer than half of the living came. */
DIJI_API diji_status_code diji_comm_shrink(diji_comm* comm, int64_t timeout_us, diji_comm** rest);
/* Ends whatever any rank does in `comm` with the error "aborted", which says `why`; returns at once. */
DIJI_API void diji_comm_abort(diji_comm* comm, const char* why);

/* Memory of this rank that the other ranks of its host read in place wherever a call is given it, or a part
 * of it: no copy, no flag. Not a collective: each rank allocates what it likes, when it likes. At the start
 * of a page, zeros at first. Free with diji_memory_free, when no call uses it; it may outlive the
 * communicator. */
typedef struct diji_memory diji_memory;
DIJI_API diji_status_code diji_comm_allocate(diji_comm* comm, int64_t bytes, diji_memory** memory);
/* Null for null. */
DIJI_API void* diji_memory_data(const diji_memory* memory);
DIJI_API void diji_memory_free(diji_memory* memory);

/* One call. All zero but what applies: = {.struct_size = sizeof(diji_call), .operation = …}. */
typedef struct diji_call {
  uint32_t struct_size; /* sizeof(diji_call) */
  diji_operation operation;
  const void* input; /* null where the rank gives nothing */
  void* output;      /* null where the rank gets nothing */
  int64_t count;     /* of the vector (all_reduce, reduce, broadcast, scan, exscan, send, recv), else of each
                        rank's block */
  diji_dtype dtype;
  diji_reduction reduction;
  double factor; /* of DIJI_REDUCE_PREMUL_SUM */
  int32_t root;  /* of broadcast, reduce, gather, scatter */
  int32_t peer;  /* of send and recv */
  int32_t exact; /* 1: the left fold in rank order (f64 for f32), whatever the plan */
  /* Blocks of different lengths (v): one entry a rank, null where all have `count`; displacements null:
   * behind each other. all_to_all has both pairs, the first for what is sent. */
  const int64_t* counts;
  const int64_t* displacements;
  const int64_t* receive_counts;
  const int64_t* receive_displacements;
  const char* algorithm; /* null: chosen */
  int64_t timeout_us;    /* from when its turn comes; 0: the communicator's */
} diji_call;

/* Makes the calls and waits: one call, or several sends and receives, which progress together within the
 * first one's time-out. A receive has the count and the dtype of its send. */
DIJI_API diji_status_code diji_run(diji_comm* comm, const diji_call* calls, size_t call_count);
/* Hands them over and returns at once. Lists and names are copied. Free the work with diji_work_free. */
DIJI_API diji_status_code diji_start(diji_comm* comm, const diji_call* calls, size_t call_count,
                                     diji_work** work);
/* 1 when it is over, with or without success. */
DIJI_API int diji_work_done(const diji_work* work);
/* The call's own result. `timeout_us` below 0: until it is over; past it DIJI_STATUS_DEADLINE, and the call
 * goes on. As often as you like. */
DIJI_API diji_status_code diji_work_wait(const diji_work* work, int64_t timeout_us);
/* Frees the handle; the call goes on. Null is fine. */
DIJI_API void diji_work_free(diji_work* work);

/* A persistent collective call (MPI_Allreduce_init): checked and planned once, for runs on the same memory.
 * Tells the other ranks nothing. Free with diji_prepared_free before the communicator, after its works. */
DIJI_API diji_status_code diji_prepare(diji_comm* comm, const diji_call* call, diji_prepared** prepared);
DIJI_API diji_status_code diji_prepared_run(diji_prepared* prepared);
DIJI_API diji_status_code diji_prepared_start(diji_prepared* prepared, diji_work** work);
DIJI_API void diji_prepared_free(diji_prepared* prepared);

/* Of the calling thread's last error, where it is one between ranks; else -1 or "". */
DIJI_API int32_t diji_error_rank(void);          /* the one to blame */
DIJI_API const char* diji_error_host(void);      /* its host */
DIJI_API int64_t diji_error_pid(void);           /* its process */
DIJI_API int64_t diji_error_sequence(void);      /* number of the call */
DIJI_API double diji_error_elapsed_s(void);      /* since the call began to wait */
DIJI_API const char* diji_error_peer_args(void); /* what the other side called, of "call_mismatch" */

/* Calls with the arguments that most need, as in NCCL. */

static inline diji_status_code diji_run_simple(diji_comm* comm, diji_operation operation, const void* input,
                                               void* output, int64_t count, diji_dtype dtype,
                                               diji_reduction reduction, int32_t root_or_peer) {
  const diji_call call = {
      sizeof(diji_call), operation, input, output, count, dtype, reduction, 1, root_or_peer,
      root_or_peer,      0,         NULL,  NULL,   NULL,  NULL,  NULL,      0};
  return diji_run(comm, &call, 1);
}

static inline diji_status_code diji_all_reduce(diji_comm* comm, const void* input, void* output,
                                               int64_t count, diji_dtype dtype, diji_reduction reduction) {
  return diji_run_simple(comm, DIJI_ALL_REDUCE, input, output, count, dtype, reduction, 0);
}
/* `count` of each rank's block: `output` has count * world elements. */
static inline diji_status_code diji_all_gather(diji_comm* comm, const void* input, void* output,
                                               int64_t count, diji_dtype dtype) {
  return diji_run_simple(comm, DIJI_ALL_GATHER, input, output, count, dtype, DIJI_REDUCE_SUM, 0);
}
/* `count` of each rank's block: `input` has count * world elements. */
static inline diji_status_code diji_reduce_scatter(diji_comm* comm, const void* input, void* output,
                                                   int64_t count, diji_dtype dtype,
                                                   diji_reduction reduction) {
  return diji_run_simple(comm, DIJI_REDUCE_SCATTER, input, output, count, dtype, reduction, 0);
}
/* In place: the root gives `buffer`, all others get it. */
static inline diji_status_code diji_broadcast(diji_comm* comm, void* buffer, int64_t count, diji_dtype dtype,
                                              int32_t root) {
  return diji_run_simple(comm, DIJI_BROADCAST, buffer, buffer, count, dtype, DIJI_REDUCE_SUM, root);
}
/* `output` is needed on the root alone. */
static inline diji_status_code diji_reduce(diji_comm* comm, const void* input, void* output, int64_t count,
                                           diji_dtype dtype, diji_reduction reduction, int32_t root) {
  return diji_run_simple(comm, DIJI_REDUCE, input, output, count, dtype, reduction, root);
}
/* `count` of each rank's block; `output` is needed on the root alone. */
static inline diji_status_code diji_gather(diji_comm* comm, const void* input, void* output, int64_t count,
                                           diji_dtype dtype, int32_t root) {
  return diji_run_simple(comm, DIJI_GATHER, input, output, count, dtype, DIJI_REDUCE_SUM, root);
}
/* `count` of each rank's block; `input` is needed on the root alone. */
static inline diji_status_code diji_scatter(diji_comm* comm, const void* input, void* output, int64_t count,
                                            diji_dtype dtype, int32_t root) {
  return diji_run_simple(comm, DIJI_SCATTER, input, output, count, dtype, DIJI_REDUCE_SUM, root);
}
static inline diji_status_code diji_scan(diji_comm* comm, const void* input, void* output, int64_t count,
                                         diji_dtype dtype, diji_reduction reduction) {
  return diji_run_simple(comm, DIJI_SCAN, input, output, count, dtype, reduction, 0);
}
static inline diji_status_code diji_exscan(diji_comm* comm, const void* input, void* output, int64_t count,
                                           diji_dtype dtype, diji_reduction reduction) {
  return diji_run_simple(comm, DIJI_EXSCAN, input, output, count, dtype, reduction, 0);
}
/* `count` of each rank's block. */
static inline diji_status_code diji_all_to_all(diji_comm* comm, const void* input, void* output,
                                               int64_t count, diji_dtype dtype) {
  return diji_run_simple(comm, DIJI_ALL_TO_ALL, input, output, count, dtype, DIJI_REDUCE_SUM, 0);
}
static inline diji_status_code diji_barrier(diji_comm* comm) {
  return diji_run_simple(comm, DIJI_BARRIER, NULL, NULL, 0, DIJI_F32, DIJI_REDUCE_SUM, 0);
}
static inline diji_status_code diji_send(diji_comm* comm, const void* input, int64_t count, diji_dtype dtype,
                                         int32_t peer) {
  return diji_run_simple(comm, DIJI_SEND, input, NULL, count, dtype, DIJI_REDUCE_SUM, peer);
}
static inline diji_status_code diji_recv(diji_comm* comm, void* output, int64_t count, diji_dtype dtype,
                                         int32_t peer) {
  return diji_run_simple(comm, DIJI_RECV, NULL, output, count, dtype, DIJI_REDUCE_SUM, peer);
}

#ifdef __cplusplus
}
#endif

#endif /* DIJI_COLLECTIVE_H */
