/* diji for programs: load a model, run it, read what went wrong. C99; from a build tree:
 *     cc program.c -I include -L build/release/lib -ldiji -Wl,-rpath,$PWD/build/release/lib
 *
 *     diji_model* model;
 *     if (diji_model_load("model.onnx", NULL, &model) != DIJI_STATUS_OK) puts(diji_error_message());
 *
 * Ownership: what a function returns through a pointer-to-pointer belongs to the caller, who gives it back
 * with the function named there. Threads: a model may be run by many threads at once; a result belongs to
 * one. Nothing here aborts or throws. Every failing call keeps its error for the calling thread until that
 * thread's next call.
 */
#ifndef DIJI_DIJI_H
#define DIJI_DIJI_H

#include "diji/dtype.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DIJI_API __attribute__((visibility("default")))
#else
#define DIJI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* As the exit codes of the command `diji`. */
typedef enum diji_status_code {
  DIJI_STATUS_OK = 0,
  DIJI_STATUS_FAILED = 1, /* a check did not hold */
  DIJI_STATUS_USAGE = 2,  /* a wrong argument */
  DIJI_STATUS_INPUT = 3,  /* a bad file or tensor: missing, malformed, unsupported, wrong dtype or size */
  DIJI_STATUS_ENVIRONMENT = 4, /* no such device, out of memory */
  DIJI_STATUS_DEADLINE = 5
} diji_status_code;

typedef struct diji_model diji_model;
typedef struct diji_result diji_result;

/* The calling thread's last error: a sentence, and the fields that apply ("" or -1 where one does not). */
DIJI_API const char* diji_error_message(void);
DIJI_API const char* diji_error_code(void); /* "malformed", "mismatch", ... */
DIJI_API const char* diji_error_file(void);
DIJI_API int64_t diji_error_offset(void); /* byte in that file */

/* "0.1.0" */
DIJI_API const char* diji_version(void);

typedef struct diji_load_options {
  uint32_t struct_size;        /* sizeof(diji_load_options) */
  const char* device;          /* "cpu:0"; null: DIJI_DEVICE, else "cpu" */
  int32_t threads;             /* 0: the cores this process may use */
  uint64_t memory_limit_bytes; /* of this model's pool; 0: none */
  uint64_t seed;               /* of the random numbers that the model draws; the n-th run of any load with it
                                  draws the same (a struct_size without it: 0) */
} diji_load_options;

/* Reads and compiles the model (from the compile cache where it can). `options` may be null. Free with
 * diji_model_free. Devices and threads are shared by all models of the process; the first load decides how
 * many threads. */
DIJI_API diji_status_code diji_model_load(const char* path, const diji_load_options* options,
                                          diji_model** model);
/* After all runs on it are done. Null is fine. */
DIJI_API void diji_model_free(diji_model* model);

DIJI_API size_t diji_model_input_count(const diji_model* model);
DIJI_API size_t diji_model_output_count(const diji_model* model);
/* Null beyond the count. The string lives as long as the model. */
DIJI_API const char* diji_model_input_name(const diji_model* model, size_t index);
DIJI_API const char* diji_model_output_name(const diji_model* model, size_t index);
/* "95 operators: 84 generated, 11 folded, 0 native, 0 on the host": how the model's operators run. Lives as
 * long as the model. */
DIJI_API const char* diji_model_coverage(const diji_model* model);

/* A tensor in host memory, row-major, that somebody else keeps. */
typedef struct diji_tensor_view {
  const char* name;
  diji_dtype dtype;
  const int64_t* shape;
  size_t rank;
  const void* data;
  size_t data_bytes;
} diji_tensor_view;

/* Runs the model on these inputs (any order, each once) and waits. The inputs are only read. Free the result
 * with diji_result_free. Errors: a missing or unknown input (the nearest name is told), a wrong dtype, rank
 * or size, values that kernels refuse, memory. After an error the model can be run again. */
DIJI_API diji_status_code diji_model_run(diji_model* model, const diji_tensor_view* inputs,
                                         size_t input_count, diji_result** result);
DIJI_API void diji_result_free(diji_result* result);
/* Output number `index` of the model; its pointers live as long as the result. Returns DIJI_STATUS_USAGE
 * beyond the count. */
DIJI_API diji_status_code diji_result_output(const diji_result* result, size_t index,
                                             diji_tensor_view* output);

#ifdef __cplusplus
}
#endif

#endif /* DIJI_DIJI_H */
