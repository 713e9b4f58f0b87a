/* What the maker of a device implements: memory, copies and streams (tier 0), compile and launch kernel text
 * (tier 1), own kernels where they are faster (tier 2). C99. plugins/mock is the template, `diji verify
 * --plugin` the test.
 *
 * A shared object exports one symbol, diji_device_plugin(); plugins built into diji export
 * diji_plugin_<name>(). It returns a table that stays valid for the life of the process: a plugin is never
 * unloaded.
 *
 * Rules for every function unless its comment says otherwise:
 *  - It returns DIJI_OK or a status, and last_error() of the calling thread then says why in one sentence.
 *  - It may be called from any thread; calls on one stream come one after the other.
 *  - It throws nothing, ends no process and waits for nothing but what its comment names.
 *  - A null function pointer means "not offered". Tier 0 functions are required, all others optional.
 */
#ifndef DIJI_DEVICE_PLUGIN_H
#define DIJI_DEVICE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major: anything that breaks a built plugin; both sides must be equal. Minor: functions and fields appended
 * at the end of a struct; struct_size tells which of them the other side knows, so each side reads only what
 * both have. */
#define DIJI_DEVICE_ABI_MAJOR 1
#define DIJI_DEVICE_ABI_MINOR 3

typedef int32_t diji_status;
#define DIJI_OK 0
#define DIJI_ERROR_INVALID 1       /* an argument that the caller should have known to be wrong */
#define DIJI_ERROR_OUT_OF_MEMORY 2 /* device or host memory; nothing was allocated */
#define DIJI_ERROR_UNSUPPORTED 3   /* not this device, dialect or entry */
#define DIJI_ERROR_COMPILE 4       /* the kernel text was refused; last_error has the compiler's words */
#define DIJI_ERROR_DEVICE 5        /* the device or its driver failed */

/* All of these belong to the plugin; diji only hands them back. Cast them to your own types instead of
 * defining them: several plugins may be linked into one program. */
typedef struct diji_device diji_device;
typedef struct diji_buffer diji_buffer;
typedef struct diji_stream diji_stream;
typedef struct diji_event diji_event;
typedef struct diji_module diji_module;

/* A place in device memory: always a buffer and a byte offset, never a pointer, so that sub-allocation works
 * where buffers are opaque handles. */
typedef struct diji_place {
  diji_buffer* buffer;
  uint64_t offset;
} diji_place;

/* What diji lends a device: valid until close(). */
typedef struct diji_host_services {
  uint32_t struct_size;
  void* context; /* first argument of each function here */
  /* Runs body(data, begin, end, worker) over [0, count) on diji's threads, `worker` in [0, workers), and
   * returns when all is done. At most `grain` indices a call. Not to be called from inside a body. */
  void (*parallel_for)(void* context, int64_t count, int64_t grain,
                       void (*body)(void* data, int64_t begin, int64_t end, int32_t worker), void* data);
  int32_t workers;
  void (*log)(void* context, int32_t level, const char* text); /* 0 error, 1 warning, 2 info, 3 debug */
  uint64_t (*now_ns)(void* context);                           /* monotonic */
} diji_host_services;

/* Facts about one device. Strings belong to the plugin and live until close() of the device (or forever). */
typedef struct diji_device_properties {
  uint32_t struct_size;
  const char* name; /* "AMD EPYC 9B45", as a person would say it */
  const char* vendor;
  const char* driver_version; /* driver or runtime underneath */
  const char* features;       /* space-separated words, for people: "avx512f avx512_bf16" */
  const char* fingerprint; /* equal exactly where compiled blobs may be exchanged: chip, compiler, options */
  const char* dialect;   /* kernel text the device compiles: "llvm-ir", "c" or "opencl-c"; empty at tier 0 */
  uint64_t memory_bytes; /* 0: unknown */
  uint32_t alignment;    /* of every allocation, bytes, a power of two, at least 4 */
  uint32_t vector_bytes; /* width of one vector register, 4 for a scalar device */
  uint32_t vector_registers; /* architectural vector registers a kernel may use */
  uint32_t host_visible;     /* 1: map() is offered and host pointers are device memory */
  /* since 1.1 */
  uint32_t lanes_max;   /* most lanes of a vector in kernel text; 0: no limit */
  uint32_t without_f64; /* 1: kernels cannot compute in f64; those that must are refused */
  uint32_t simt; /* 1: neighbouring grid indices run in lockstep on neighbouring lanes: kernels are scalar,
                  * and one index does one element's work; 0: an index does a vector's or a tile's */
} diji_device_properties;

/* How a device is just now. A number that it cannot tell stays as the caller left it. Since 1.2. */
typedef struct diji_telemetry {
  uint32_t struct_size;
  float temperature_c;
  float clock_mhz;
  float utilisation;   /* 0 to 1, of compute, over a time that the device chooses */
  uint64_t used_bytes; /* of its memory, by whomever */
} diji_telemetry;

/* What a collective moved between a device and the others of its group, for devices that keep a clock of
 * their own. Since 1.3. */
typedef struct diji_exchange {
  uint32_t struct_size;
  uint32_t messages; /* one behind the other */
  uint64_t bytes;    /* out of the device, and as many into it */
  uint64_t begin_ns; /* not before: when the last of the group was ready */
} diji_exchange;

/* Kernel text to compile: one module, many entries. */
typedef struct diji_kernel_text {
  uint32_t struct_size;
  const char* text;
  size_t text_bytes;
} diji_kernel_text;

/* One launch. The kernel runs once for each index in [0, grid), in any order and in parallel.
 * Every entry sees the same argument record (see "kernel contract" below). */
typedef struct diji_launch {
  uint32_t struct_size;
  const char* entry;
  int64_t grid;
  const diji_place* places; /* buffer arguments */
  uint32_t place_count;
  uint32_t size_count;
  const int64_t* sizes;  /* integer arguments: symbolic sizes and strides, known at run time */
  diji_place error_word; /* 8 zeroed bytes where the kernel reports its first error */
  uint64_t local_bytes;  /* scratch memory that each running index needs for itself */
  /* since 1.1: what the launch is worth, for devices that keep a clock of their own; 0: not known */
  uint64_t flops; /* multiplications and additions, one each */
  uint64_t bytes; /* of all places, read or written once */
} diji_launch;

/* Kernel contract of the dialect "llvm-ir": the entry is
 *     void entry(ptr places, ptr sizes, ptr error_word, ptr local, i64 begin, i64 end)
 * with `places` an array of raw pointers (buffer + offset), `sizes` of int64, `local` local_bytes of scratch
 * aligned to 64, and indices [begin, end) of the grid to run. Text is LLVM 19 IR without external symbols.
 * Internal functions diji.dot4.vNi32(a, b, c) add the four products of each lane's bytes (a without sign, b
 * with) to c: their bodies are right but slow, and a device with such an instruction puts it in the place of
 * calls.
 *
 * The dialect "c" has the same entry,
 *     void entry(void *const *places, const i64 *sizes, void *error_word, void *local, i64 begin, i64 end)
 * in C11 with the vector extensions of GCC 12 and Clang and no headers, to be compiled with -fwrapv,
 * -fno-strict-aliasing and -ffp-contract=off. Of the system it calls at most memcpy, memset and the exactly
 * rounding functions of math.h, where the processor lacks them.
 *
 * Kernel contract of the dialect "opencl-c" (OpenCL C 1.2): the kernel diji_<entry> takes for each place
 * (global uchar*, long offset), each size as a long, then global uchar* errors, long offset, global uchar*
 * scratch, long stride, long count and runs indices [0, count), each work-item every get_global_size(0)-th; a
 * work-item's scratch begins at get_global_id(0) * stride. Groups have one item where properties say that
 * vectors are taken (simt 0), and DIJI_SIMT_GROUP items otherwise.
 *
 * Kernel contract of the dialects "cuda", "hip" and their relatives (C++17 without headers): the same kernel,
 * extern "C" __global__, in groups of DIJI_SIMT_GROUP items, as many groups as wanted. Kernels for simt 1 may
 * declare up to 16 KiB of memory that a group shares, and wait for their group. "cuda-mma" and
 * "hip-mfma" may use the matrix unit of sm_80 or gfx90a and later, whose lanes are neighbouring grid indices.
 * a * b + c is two roundings: the compiler is told not to contract it.
 *
 * Error word: 0 is "no error"; else code in bits 0-7, node in bits 8-31, value in bits 32-63, first writer
 * wins. */

#define DIJI_SIMT_GROUP 128

/* A tier-2 row: a kernel of the vendor's own for one operator. */
typedef struct diji_kernel_row {
  uint32_t struct_size;
  const char* op;     /* operator name of the catalogue */
  const char* dtypes; /* "f32,f32->f32" */
  const char* layout; /* "row_major" */
  /* Scratch bytes for these shapes; 0 is fine. */
  uint64_t (*workspace)(const int64_t* const* shapes, const uint32_t* ranks, uint32_t count);
  diji_status (*run)(diji_stream* stream, const diji_place* places, const int64_t* const* shapes,
                     const uint32_t* ranks, uint32_t count, const void* attributes, size_t attribute_bytes,
                     diji_place workspace);
} diji_kernel_row;

typedef struct diji_device_plugin_table {
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;
  const char* name;     /* "cpu": devices are cpu:0, cpu:1, ... */
  const char* version;  /* of the plugin */
  const char* build_id; /* what tells two builds of one version apart */

  /* ---- tier 0: required ---- */

  /* How many devices there are now. 0 with DIJI_OK: no device, and last_error()
   * then says why, or "". Called before open. */
  diji_status (*device_count)(int32_t* count);
  /* Fills the fields that struct_size of *out covers. */
  diji_status (*device_properties)(int32_t ordinal, diji_device_properties* out);
  /* `host` outlives the device. */
  diji_status (*open)(int32_t ordinal, const diji_host_services* host, diji_device** out);
  /* After every buffer, stream, event and module of it is gone. Waits for the device to be idle. */
  void (*close)(diji_device* device);
  /* Uninitialised memory, aligned as the properties say. bytes > 0. OUT_OF_MEMORY leaves the device usable.
   */
  diji_status (*alloc)(diji_device* device, uint64_t bytes, diji_buffer** out);
  /* Stream-ordered: the memory may be in use by work already on `stream` and is given back after it. A null
   * stream means "idle by now". */
  void (*free)(diji_device* device, diji_stream* stream, diji_buffer* buffer);
  /* Copies are asynchronous on the stream; host memory must stay valid until it is synchronised. */
  diji_status (*copy_to_device)(diji_stream* stream, diji_place dst, const void* src, uint64_t bytes);
  diji_status (*copy_to_host)(diji_stream* stream, void* dst, diji_place src, uint64_t bytes);
  /* Ranges do not overlap. */
  diji_status (*copy_on_device)(diji_stream* stream, diji_place dst, diji_place src, uint64_t bytes);
  diji_status (*stream_new)(diji_device* device, diji_stream** out);
  /* Waits for the stream's work. */
  void (*stream_free)(diji_stream* stream);
  /* Waits for all work on the stream and returns the first failure of it. */
  diji_status (*stream_sync)(diji_stream* stream);
  /* One sentence about this thread's last failed call; "" if none. Valid until the thread's next call. */
  const char* (*last_error)(void);

  /* ---- tier 0: optional ---- */

  /* Host memory as a buffer, without a copy; `release(context)` is called when the buffer is freed. The
   * memory is read-only to kernels where the caller says so by never passing it as an output. */
  diji_status (*import_host)(diji_device* device, const void* pointer, uint64_t bytes,
                             void (*release)(void* context), void* context, diji_buffer** out);
  /* The buffer's address in host memory, valid until it is freed. Only where properties say host_visible. */
  diji_status (*map)(diji_buffer* buffer, void** out);

  /* ---- tier 1: compile and launch kernel text ---- */

  /* Text to a blob that load() takes, now or in another process on a device of equal fingerprint. The blob
   * belongs to the plugin and is given back with blob_free. May take long; no stream is involved. */
  diji_status (*compile)(diji_device* device, const diji_kernel_text* text, const void** blob,
                         size_t* blob_bytes);
  void (*blob_free)(const void* blob);
  /* The blob is data from a cache: it is checked, and refused (INVALID) rather than trusted. Copies what it
   * needs. */
  diji_status (*load)(diji_device* device, const void* blob, size_t blob_bytes, diji_module** out);
  /* After the last launch from it has been synchronised. */
  void (*unload)(diji_module* module);
  /* Asynchronous on the stream. The arrays in *launch are copied. UNSUPPORTED: no such entry in the module.
   */
  diji_status (*launch)(diji_stream* stream, diji_module* module, const diji_launch* launch);
  diji_status (*event_new)(diji_device* device, diji_event** out);
  void (*event_free)(diji_event* event);
  /* Marks the work now on the stream. */
  diji_status (*event_record)(diji_event* event, diji_stream* stream);
  /* Later work on `stream` waits for the event, the host does not. */
  diji_status (*event_wait)(diji_event* event, diji_stream* stream);
  diji_status (*event_sync)(diji_event* event);
  /* Nanoseconds between two recorded and finished events. */
  diji_status (*event_elapsed_ns)(diji_event* from, diji_event* to, uint64_t* out);

  /* ---- tier 2: own kernels ---- */

  /* An array of *count rows that lives as long as the table. */
  const diji_kernel_row* (*kernels)(uint32_t* count);

  /* ---- since 1.2, optional in each tier ---- */

  /* Fills what it can tell of the fields that struct_size of *out covers. The device need not be open. */
  diji_status (*telemetry)(int32_t ordinal, diji_telemetry* out);

  /* ---- since 1.3, only of devices that keep a clock of their own ---- */

  /* The calling thread has taken part in the exchange and goes on when it is over: *now_ns is its time then.
   * A null exchange only asks for its time. The clocks of a plugin's devices begin together. */
  diji_status (*exchanged)(diji_device* device, const diji_exchange* exchange, uint64_t* now_ns);
} diji_device_plugin_table;

/* The one exported symbol of a plugin's shared object. */
const diji_device_plugin_table* diji_device_plugin(void);

#ifdef __cplusplus
}
#endif

#endif /* DIJI_DEVICE_PLUGIN_H */
