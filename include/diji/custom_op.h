/* What the writer of an operator implements: a C function on the host, which is the operator's meaning, and
 * where speed matters the same as kernel text for devices. C99. `diji op new NAME` writes a first one. With
 * `--op-library LIB`, `diji verify` tests it, and `diji run MODEL` runs a model whose nodes name it.
 *
 * A shared object exports one symbol, diji_op_library_entry(). What it returns stays valid for the life of
 * the process: a library is never unloaded. diji loads only files that belong to root or to the user, in
 * folders of which that is true too, and that nobody else may write.
 *
 * Rules for every function of an operator:
 *  - It is pure: what it writes follows from its arguments alone. Any thread may call it, several at once.
 *  - It throws nothing and ends no process. It returns 0, or after diji_op_call.refuse(call, sentence)
 * another number, and the run ends with that sentence.
 *  - It keeps no pointer of the call.
 */
#ifndef DIJI_CUSTOM_OP_H
#define DIJI_CUSTOM_OP_H

#include "diji/dtype.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major: anything that breaks a built library; both sides must be equal. Minor: fields appended at the end of
 * a struct with a struct_size, which tells what the other side knows. Structs without one never change. */
#define DIJI_OP_ABI_MAJOR 1
#define DIJI_OP_ABI_MINOR 1

/* A set of dtypes is bits; DIJI_OP_DTYPE(DIJI_F32) | DIJI_OP_DTYPE(DIJI_F64). */
#define DIJI_OP_DTYPE(dtype) (1u << (dtype))

/* How elements may lie in memory. diji compares every call with what is declared here and refuses one that
 * does not fit, naming both: a function that counts on contiguous memory never sees anything else. */
typedef enum diji_op_layout {
  DIJI_OP_CONTIGUOUS, /* row-major without gaps; strides may be ignored */
  DIJI_OP_STRIDED     /* any strides, also 0 and negative ones; `strides` must be used */
} diji_op_layout;

typedef enum diji_op_attribute_kind {
  DIJI_OP_INTEGER,  /* int64_t; ONNX INT */
  DIJI_OP_REAL,     /* double; ONNX FLOAT */
  DIJI_OP_TEXT,     /* ONNX STRING */
  DIJI_OP_INTEGERS, /* ONNX INTS */
} diji_op_attribute_kind;

#define DIJI_OP_ANY_RANK (-1)
#define DIJI_OP_OWN (-1) /* like no input */

typedef struct diji_op_input {
  const char* name;
  uint32_t dtypes; /* a set; which of them go together is for shape() to refuse */
  int32_t rank;    /* or DIJI_OP_ANY_RANK */
  diji_op_layout layout;
  int32_t optional; /* 1: a call may leave it out; only behind the required ones */
} diji_op_input;

/* Outputs are contiguous. */
typedef struct diji_op_output {
  const char* name;
  int32_t dtype_of; /* the input whose dtype it has, or DIJI_OP_OWN: `dtype` */
  diji_dtype dtype;
  int32_t shape_of; /* the input whose shape it has, or DIJI_OP_OWN: `rank` axes whose sizes shape() tells */
  int32_t rank;
} diji_op_output;

typedef struct diji_op_attribute {
  const char* name;
  diji_op_attribute_kind kind;
  int32_t required; /* 0: a call may leave it out */
} diji_op_attribute;

/* One operand of one call. */
typedef struct diji_op_tensor {
  void* data;             /* of inputs only to be read; null in shape() */
  const int64_t* sizes;   /* null: an optional input that is left out */
  const int64_t* strides; /* in elements, one an axis; null in shape() */
  uint32_t rank;
  diji_dtype dtype;
} diji_op_tensor;

/* What shape() and run() are given. Inputs and outputs are as many as declared, in that order. */
typedef struct diji_op_call diji_op_call;
struct diji_op_call {
  uint32_t struct_size;
  const diji_op_tensor* inputs;
  const diji_op_tensor* outputs; /* in shape(): their sizes are not known yet */
  /* Attributes by declared name; `otherwise` where the node has none of that name. */
  int64_t (*integer)(const diji_op_call* call, const char* name, int64_t otherwise);
  double (*real)(const diji_op_call* call, const char* name, double otherwise);
  const char* (*text)(const diji_op_call* call, const char* name, const char* otherwise);
  const int64_t* (*integers)(const diji_op_call* call, const char* name, size_t* count); /* null: none */
  /* Keeps the sentence (not what operator it is: diji knows) and returns 1, for `return call->refuse(...)`.
   */
  int32_t (*refuse)(const diji_op_call* call, const char* sentence);
  void* context; /* diji's */
};

/* The same operator for devices that compile this dialect, under the kernel contract of device_plugin.h:
 * places are the inputs and then the outputs, all contiguous; sizes are those of all their axes in the same
 * order, then one number that belongs to the error word. Used where every size of the outputs is known before
 * the launch (from shape_of, or because the sizes of the inputs are numbers in the model); elsewhere run()
 * is, on the host. Operators with optional inputs have none. */
typedef struct diji_op_kernel {
  uint32_t struct_size;
  const char* dialect; /* "llvm-ir": the `kernel text` of `diji devices` */
  const char* dtypes;  /* of the inputs: "f32", or "f32,i64" */
  const char* entry;
  const char* text; /* in which the entry's name stands once, with a "(" behind it */
  int64_t
      elements; /* of output 0 that one grid index computes: the grid is their count / elements, rounded up */
  double tolerance_ulp; /* how far it may lie from run(), in units of the last place; 0: the same bits */
} diji_op_kernel;

typedef struct diji_custom_op {
  uint32_t struct_size;
  const char* domain; /* of the model's nodes: "com.example"; never empty, ONNX's own operators are diji's */
  const char* name;   /* the node's op_type: "ScaleRows" */
  uint32_t version;   /* the first operator set of the domain that has it as it is here; at least 1 */
  const char* doc;    /* one sentence */
  const diji_op_input* inputs;
  uint32_t input_count; /* 1 to 16 */
  const diji_op_output* outputs;
  uint32_t output_count; /* 1 to 6 */
  const diji_op_attribute* attributes;
  uint32_t attribute_count; /* 0 to 16 */
  /* Writes the sizes of each output to sizes[output][axis], where those with shape_of stand already and stay,
   * and refuses operands that do not go together. Null: every output has a shape_of, and any operands do.
   * Called when the model is loaded, where all sizes are numbers, and at every run. */
  int32_t (*shape)(const diji_op_call* call, int64_t* const* sizes);
  /* Computes. */
  int32_t (*run)(const diji_op_call* call);
  const diji_op_kernel* const* kernels; /* may be null */
  uint32_t kernel_count;
  /* Since 1.1. The operator of the same library and domain that computes this one's gradient, or null. Its
   * inputs are this operator's inputs and then, for each output, the gradient of some number by it; its
   * outputs the gradients of that number by this operator's inputs of floats, in their order, each with the
   * type of its input. Its attributes are the same. `diji verify --op-library` compares it with differences
   * of run().
   */
  const char* gradient;
} diji_custom_op;

typedef struct diji_op_library {
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;
  const char* name;    /* "example_ops", for messages */
  const char* version; /* of the library */
  const diji_custom_op* const* ops;
  uint32_t op_count; /* 1 to 256 */
} diji_op_library;

/* The one exported symbol. */
const diji_op_library* diji_op_library_entry(void);

#ifdef __cplusplus
}
#endif

#endif /* DIJI_CUSTOM_OP_H */
