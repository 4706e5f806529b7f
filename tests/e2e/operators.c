/* Operators that test_operators.py compiles: those that split in several ways, one that does not,
 * and, with LIE=1 to LIE=9, ones that break their promises. */
#include "autopar_operator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LIE
#define LIE 0
#endif

static int64_t elements(const AutoparTensor* tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->rank; ++d) count *= tensor->shape[d];
  return count;
}

static int refuse(char* error, const char* reason) {
  snprintf(error, AUTOPAR_ERROR_BYTES, "%s", reason);
  return 1;
}

static int same_shape(const AutoparNode* node, AutoparOutput* outputs, char* error) {
  const AutoparTensor* x = &node->inputs[0];
  if (x->type != AUTOPAR_FLOAT32) return refuse(error, "its input is not float32");
  outputs[0].type = x->type;
  outputs[0].rank = x->rank;
  for (int32_t d = 0; d < x->rank; ++d) outputs[0].shape[d] = x->shape[d];
  return 0;
}

/* --- Swish: x / (1 + exp(-beta x)), element by element. */

static int swish(const AutoparRun* run, char* error) {
  const float* betas = NULL;
  const float* x = run->inputs[0].data;
  float* y = run->outputs[0].data;
  if (run->node->floats(run->node, "beta", &betas) != 1) return refuse(error, "it has no beta");
  for (int64_t i = 0; i < elements(&run->inputs[0]); ++i)
    y[i] = x[i] / (1 + expf(-betas[0] * x[i]));
  return 0;
}

/* --- SumOver(x, axis): the sum over one dimension, which a constant input names. */

static int axis_of(const AutoparNode* node, int32_t* axis) {
  const AutoparTensor* given = &node->inputs[1];
  if (given->type != AUTOPAR_INT64 || given->data == NULL || elements(given) != 1) return 1;
  *axis = (int32_t) * (const int64_t*)given->data;
  return *axis < 0 || *axis >= node->inputs[0].rank;
}

static int sum_shapes(const AutoparNode* node, AutoparOutput* outputs, char* error) {
  int32_t axis = 0;
  if (same_shape(node, outputs, error) != 0) return 1;
  if (axis_of(node, &axis) != 0) return refuse(error, "its axis is no constant of its dimensions");
  for (int32_t d = axis; d + 1 < outputs[0].rank; ++d)
    outputs[0].shape[d] = outputs[0].shape[d + 1];
  --outputs[0].rank;
  return 0;
}

static int64_t sum_scratch_elements(const AutoparTensor* output) { return elements(output); }

static int sum_scratch(const AutoparNode* node, const AutoparTensor* outputs, int64_t* bytes,
                       char* error) {
  (void)node;
  (void)error;
  *bytes = sum_scratch_elements(&outputs[0]) * (int64_t)sizeof(double);
  return 0;
}

/* In doubles, which lie in the scratch memory. */
static int sum_over(const AutoparRun* run, char* error) {
  const AutoparTensor* in = &run->inputs[0];
  const float* x = in->data;
  float* y = run->outputs[0].data;
  double* sums = run->scratch;
  int64_t inner = 1;
  int32_t axis = 0;
  if (axis_of(run->node, &axis) != 0) return refuse(error, "its axis is no constant");
  for (int32_t d = axis + 1; d < in->rank; ++d) inner *= in->shape[d];
  const int64_t count = elements(&run->outputs[0]);
  for (int64_t o = 0; o < count; ++o) {
    sums[o] = 0;
    for (int64_t k = 0; k < in->shape[axis]; ++k)
      sums[o] += x[(o / inner * in->shape[axis] + k) * inner + o % inner];
    y[o] = (float)sums[o];
  }
  return 0;
}

/* --- HeadShares(x): in each of `heads` equal parts of a row, what each element is of their sum. */

static int64_t heads_of(const AutoparNode* node) {
  const int64_t* values = NULL;
  return node->ints(node, "heads", &values) == 1 ? values[0] : 0;
}

static int head_shapes(const AutoparNode* node, AutoparOutput* outputs, char* error) {
  const int64_t heads = heads_of(node);
  if (node->inputs[0].rank != 2 || heads < 1 || node->inputs[0].shape[1] % heads != 0)
    return refuse(error, "its heads do not divide its rows");
  return same_shape(node, outputs, error);
}

static int head_shares(const AutoparRun* run, char* error) {
  const float* x = run->inputs[0].data;
  float* y = run->outputs[0].data;
  const int64_t heads = heads_of(run->node);
  const int64_t rows = run->inputs[0].shape[0] * heads;
  (void)error;
  if (rows == 0) return 0;
  const int64_t width = elements(&run->inputs[0]) / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += fabsf(x[r * width + i]);
    for (int64_t i = 0; i < width; ++i) y[r * width + i] = x[r * width + i] / (1 + sum);
  }
  return 0;
}

/* --- RunningSum(x): along all of a row-major tensor. No dimension of a vector splits. */

static int running_sum(const AutoparRun* run, char* error) {
  const float* x = run->inputs[0].data;
  float* y = run->outputs[0].data;
  float sum = 0;
  (void)error;
  for (int64_t i = 0; i < elements(&run->inputs[0]); ++i) y[i] = sum += x[i];
  return 0;
}

/* --- Pair(x, shift?): two outputs, of which either may be left out; the second has `name`. */

static int pair_shapes(const AutoparNode* node, AutoparOutput* outputs, char* error) {
  const char* const* names = NULL;
  if (node->strings(node, "name", &names) != 1 || strcmp(names[0], "pair") != 0)
    return refuse(error, "its name is not 'pair'");
  if (same_shape(node, outputs, error) != 0) return 1;
  if (node->num_outputs > 1) outputs[1] = outputs[0];
  return 0;
}

static int pair(const AutoparRun* run, char* error) {
  AutoparTensor table;
  const int has_shift = run->node->num_inputs > 1 && run->inputs[1].type != AUTOPAR_ABSENT;
  if (run->node->tensor(run->node, "table", &table) != 1) return refuse(error, "it has no table");
  for (uint32_t o = 0; o < run->node->num_outputs; ++o) {
    if (run->outputs[o].type == AUTOPAR_ABSENT) continue;
    for (int64_t i = 0; i < elements(&run->inputs[0]); ++i) {
      float value = ((const float*)run->inputs[0].data)[i] * ((const float*)table.data)[o];
      if (has_shift) value += ((const float*)run->inputs[1].data)[i];
      ((float*)run->outputs[o].data)[i] = value;
    }
  }
  return 0;
}

/* --- Liar(x): says that it has the shape of x. */

static int liar_shapes(const AutoparNode* node, AutoparOutput* outputs, char* error) {
  if (same_shape(node, outputs, error) != 0) return 1;
#if LIE == 1
  outputs[0].shape[0] = -1;
#elif LIE == 2
  outputs[0].rank = AUTOPAR_MAX_RANK + 1;
#elif LIE == 3
  outputs[0].rank = -1;
  outputs[0].type = -1;
#elif LIE == 4
  outputs[1] = outputs[0];
#elif LIE == 5
  outputs[0].type = 99;
#elif LIE == 6 /* on shards alone */
  if (node->inputs[0].shape[0] < 24) outputs[0].shape[0] += 1;
#endif
  return 0;
}

static int liar(const AutoparRun* run, char* error) {
  int64_t count = elements(&run->inputs[0]);
  (void)error;
#if LIE == 7 /* past the end */
  count += 1;
#elif LIE == 8 /* not to the end */
  count -= 1;
#endif
  float* y = run->outputs[0].data;
  for (int64_t i = 0; i < count; ++i) y[i] = 2 * ((const float*)run->inputs[0].data)[i];
#if LIE == 9 /* past its scratch memory, of which it has none */
  ((char*)run->scratch)[0] = 1;
#endif
  return 0;
}

#ifndef DOMAIN
#define DOMAIN "com.example"
#endif
#ifndef LIAR_NAME
#define LIAR_NAME "Liar"
#endif
#ifndef ABI
#define ABI AUTOPAR_OPERATOR_ABI
#endif
#define COUNTS(inputs, optional_inputs, outputs, optional_outputs)                \
  .version = 1, .min_inputs = inputs, .max_inputs = (inputs) + (optional_inputs), \
  .min_outputs = outputs, .max_outputs = (outputs) + (optional_outputs)

static const AutoparOperator operators[] = {
    {.domain = DOMAIN, .name = "Swish", COUNTS(1, 0, 1, 0), .shapes = same_shape, .cpu = swish},
    {.domain = DOMAIN,
     .name = "SumOver",
     COUNTS(2, 0, 1, 0),
     .shapes = sum_shapes,
     .cpu = sum_over,
     .scratch_bytes = sum_scratch},
    {.domain = DOMAIN,
     .name = "HeadShares",
     COUNTS(1, 0, 1, 0),
     .shapes = head_shapes,
     .cpu = head_shares},
    {.domain = DOMAIN,
     .name = "RunningSum",
     COUNTS(1, 0, 1, 0),
     .shapes = same_shape,
     .cpu = running_sum},
    {.domain = DOMAIN,
     .name = "Whole",
     .flags = AUTOPAR_RUNS_WHOLE,
     COUNTS(1, 0, 1, 0),
     .shapes = same_shape,
     .cpu = running_sum},
    {.domain = DOMAIN, .name = "Pair", COUNTS(1, 1, 1, 1), .shapes = pair_shapes, .cpu = pair},
    {.domain = DOMAIN, .name = LIAR_NAME, COUNTS(1, 0, 1, 1), .shapes = liar_shapes, .cpu = liar},
};

const AutoparLibrary* autopar_operators(void) {
  static const AutoparLibrary library = {ABI, sizeof(operators) / sizeof(operators[0]), operators};
  return &library;
}
