/* Operators of one's own for autopar: a shared library that exports autopar_operators() is given to
 * plan, partition, run and verify by --operators LIBRARY.so. Plain C; nothing is to be linked.
 *
 * Shapes      The shape function tells the type and the shape of each output from those of the
 *             inputs. It is asked for whole tensors and for shards of them, whose extents may be of
 *             any size, 0 too.
 * Ownership   All that autopar hands to a function belongs to autopar and holds until the function
 *             returns. What the library hands to autopar (its AutoparLibrary) holds for good; the
 *             library is never unloaded.
 * Threads     Every function may be called by several threads at the same time.
 * Errors      A function returns 0 for success. For anything else, it writes the reason, one line
 *             that ends with a 0 byte, to `error`, which has AUTOPAR_ERROR_BYTES bytes.
 * Promise     The outputs depend on the inputs and the attributes alone. A kernel writes every
 *             element of its outputs, nothing else, and does not read what they held before.
 *
 * Compatibility: libraries are compiled for one AUTOPAR_OPERATOR_ABI and refused by an autopar of
 * another. Within one, fields may be added at the end of what autopar makes (AutoparNode,
 * AutoparRun) and never to what a library makes or to AutoparTensor. */
#ifndef AUTOPAR_OPERATOR_H
#define AUTOPAR_OPERATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOPAR_OPERATOR_ABI 1
#define AUTOPAR_MAX_RANK 16
#define AUTOPAR_ERROR_BYTES 256
/* As max_inputs or max_outputs: any number. */
#define AUTOPAR_ANY UINT32_MAX

/* Element types, numbered as ONNX's TensorProto.DataType. Types of 4 and 2 bits lie two and four to
 * a byte, the first in the lowest bits. */
enum AutoparType {
  AUTOPAR_ABSENT = 0, /* an optional tensor that is left out */
  AUTOPAR_FLOAT32 = 1,
  AUTOPAR_UINT8 = 2,
  AUTOPAR_INT8 = 3,
  AUTOPAR_UINT16 = 4,
  AUTOPAR_INT16 = 5,
  AUTOPAR_INT32 = 6,
  AUTOPAR_INT64 = 7,
  AUTOPAR_BOOL = 9,
  AUTOPAR_FLOAT16 = 10,
  AUTOPAR_FLOAT64 = 11,
  AUTOPAR_UINT32 = 12,
  AUTOPAR_UINT64 = 13,
  AUTOPAR_COMPLEX64 = 14,
  AUTOPAR_COMPLEX128 = 15,
  AUTOPAR_BFLOAT16 = 16,
  AUTOPAR_FLOAT8E4M3FN = 17,
  AUTOPAR_FLOAT8E4M3FNUZ = 18,
  AUTOPAR_FLOAT8E5M2 = 19,
  AUTOPAR_FLOAT8E5M2FNUZ = 20,
  AUTOPAR_UINT4 = 21,
  AUTOPAR_INT4 = 22,
  AUTOPAR_FLOAT4E2M1 = 23,
  AUTOPAR_FLOAT8E8M0 = 24,
  AUTOPAR_UINT2 = 25,
  AUTOPAR_INT2 = 26
};

/* A tensor: contiguous, row-major. */
typedef struct AutoparTensor {
  int32_t type;         /* AutoparType */
  int32_t rank;         /* 0: a scalar */
  const int64_t* shape; /* `rank` extents */
  void* data;
} AutoparTensor;

/* What the shape function tells of an output. */
typedef struct AutoparOutput {
  int32_t type; /* AutoparType */
  int32_t rank;
  int64_t shape[AUTOPAR_MAX_RANK];
} AutoparOutput;

/* A node of a model (on a rank, of its shard). */
typedef struct AutoparNode AutoparNode;
struct AutoparNode {
  uint32_t num_inputs;
  uint32_t num_outputs; /* with those that are left out */
  /* `data` is host memory where an input is a constant of at most 1024 elements (an axis, a shape),
   * else NULL. */
  const AutoparTensor* inputs;
  const void* attributes; /* for the functions below */
  /* The values of an attribute and their number, which is 1 for one that is no list; -1 where the
   * node has none of that name and kind. */
  int64_t (*ints)(const AutoparNode* node, const char* name, const int64_t** values);
  int64_t (*floats)(const AutoparNode* node, const char* name, const float** values);
  int64_t (*strings)(const AutoparNode* node, const char* name, const char* const** values);
  int64_t (*tensor)(const AutoparNode* node, const char* name, AutoparTensor* value);
};

/* One run of a kernel. For a CUDA kernel, `data` and `scratch` are memory of the current device,
 * and the work is to be queued on `stream`, without waiting for it: a run may be recorded as a CUDA
 * graph and replayed with the same addresses. */
typedef struct AutoparRun {
  const AutoparNode* node;
  const AutoparTensor* inputs;  /* node->num_inputs */
  const AutoparTensor* outputs; /* node->num_outputs */
  void* scratch;                /* as much as the operator asked for, from a multiple of 64 bytes */
  void* stream;                 /* a cudaStream_t; NULL on a CPU */
  int32_t threads;              /* of the CPU, that the kernel may use */
} AutoparRun;

/* Tells `outputs[i]` for each of node->num_outputs. A type of AUTOPAR_ABSENT stands for one that
 * the operator does not have. */
typedef int (*AutoparShapes)(const AutoparNode* node, AutoparOutput* outputs, char* error);
typedef int (*AutoparKernel)(const AutoparRun* run, char* error);
/* Bytes of scratch memory for a run on these outputs, whose data is not there yet. */
typedef int (*AutoparScratch)(const AutoparNode* node, const AutoparTensor* outputs, int64_t* bytes,
                              char* error);

/* Flags of an operator. */
enum {
  /* Its inputs are never split: every rank runs it whole. Without this, autopar runs the operator
   * on random numbers to find out how it splits. */
  AUTOPAR_RUNS_WHOLE = 1
};

typedef struct AutoparOperator {
  const char* domain; /* neither ONNX's own nor one of autopar's */
  const char* name;
  int32_t version; /* of the domain's opset, from which on models have it in this form; from 1 */
  uint32_t flags;
  uint32_t min_inputs;
  uint32_t max_inputs;
  uint32_t min_outputs;
  uint32_t max_outputs;
  AutoparShapes shapes;
  AutoparKernel cpu;
  AutoparKernel cuda;           /* NULL: none, the operator runs on CPUs alone */
  AutoparScratch scratch_bytes; /* NULL: none needed on a CPU */
  AutoparScratch cuda_scratch_bytes;
} AutoparOperator;

typedef struct AutoparLibrary {
  uint32_t abi; /* AUTOPAR_OPERATOR_ABI */
  uint32_t num_operators;
  const AutoparOperator* operators;
} AutoparLibrary;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
/* The entry function, which the library defines. */
const AutoparLibrary*
autopar_operators(void);

#ifdef __cplusplus
}
#endif

#endif
