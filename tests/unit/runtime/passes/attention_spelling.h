#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "unit/runtime/passes/spelling.h"

/// Attention as exporters write it out.
namespace autopar::runtime::testing {

enum class MaskForm {
  none,
  nothing_hidden,
  added,
  causal,
  causal_where,
  causal_fill,
  where,
  banded,
  causal_choice
};

struct AttentionForm {
  std::int64_t batch = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;
  std::int64_t queries = 3;
  std::int64_t keys = 5;
  int keys_transposed = 0;  ///< at once, later, or as a batch of matrices
  int scale = 0;            ///< none, of the scores by Mul or Div, or half on either side
  MaskForm mask = MaskForm::none;
  bool nan_guard = false;
  DataType type = DataType::float32;
  /// In half types: none, around the softmax, from the scores to the result, or for good.
  int casts = 0;
  bool result_transposed = true;
  bool merged = false;         ///< products have one dimension for samples and heads
  bool repeats_first = false;  ///< head h reads head h % kv_heads, which no attention does
};

/// [batch, rows, heads, 8], as a projection leaves it.
inline ValueId projection(Spelling& s, const std::string& name, std::int64_t rows,
                          std::int64_t heads, std::int64_t batch) {
  return s.reshaped(s.in(name, {batch, rows, heads * 8}), {batch, rows, heads, 8});
}

inline ValueId repeated(Spelling& s, const AttentionForm& form, ValueId x) {
  if (form.heads == form.kv_heads) return x;
  const std::int64_t times = form.heads / form.kv_heads;
  const std::int64_t at = form.repeats_first ? 1 : 2;
  Shape shape = s.shape(x);
  shape.insert(shape.begin() + at, 1);
  x = s.op("Unsqueeze", {x, s.integers({at})}, shape);
  shape[static_cast<std::size_t>(at)] = times;
  x = s.op("Expand", {x, s.integers(shape)}, shape);
  return s.reshaped(x, {form.batch, form.heads, form.keys, 8});
}

inline Tensor mask_of(const AttentionForm& form, DataType type, double seen, double hidden) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < form.queries; ++i)
    for (std::int64_t j = 0; j < form.keys; ++j) {
      const std::int64_t ahead = j - (i + form.keys - form.queries);
      const bool is_hidden = form.mask != MaskForm::nothing_hidden &&
                             (ahead > 0 || (form.mask == MaskForm::banded && ahead < -1));
      values.push_back(is_hidden ? hidden : seen);
    }
  return tensor_of(type, {1, 1, form.queries, form.keys}, values);
}

inline ValueId masked(Spelling& s, const AttentionForm& form, ValueId scores) {
  const DataType type = s.type_of(scores);
  const double lowest = type == DataType::float16 ? -65504 : -3e38;
  const auto constant = [&](DataType as, double seen, double hidden) {
    return s.graph.add_constant("mask", mask_of(form, as, seen, hidden));
  };
  switch (form.mask) {
    case MaskForm::none:
      return scores;
    case MaskForm::nothing_hidden:
    case MaskForm::causal:
    case MaskForm::banded:
      return s.either("Add", scores, constant(type, 0, lowest));
    case MaskForm::added:
      return s.either("Add", scores, s.in("given_mask", {form.batch, 1, 1, form.keys}, type));
    case MaskForm::causal_where:
      return s.where(constant(DataType::boolean, 1, 0), scores, s.number(lowest, type));
    case MaskForm::causal_fill:  // and, as GPT-2 once did, another mask behind it
      scores = s.where(constant(DataType::boolean, 0, 1), s.number(lowest, type), scores);
      return s.either("Add", scores, s.in("given_mask", {form.batch, 1, 1, form.keys}, type));
    case MaskForm::causal_choice: {  // of constants, but perhaps too large to be one
      const Shape shape{1, 1, form.queries, form.keys};
      const ValueId every = s.number(1, DataType::boolean);
      const ValueId seen = s.op("And", {constant(DataType::boolean, 1, 0), every}, shape);
      const std::vector<ValueId> choice = {seen, s.number(0, type), s.number(lowest, type)};
      return s.either("Add", scores, s.typed(s.op("Where", choice, shape), type));
    }
    case MaskForm::where:
      return s.where(
          s.in("given_mask", {form.batch, 1, form.queries, form.keys}, DataType::boolean), scores,
          s.number(-3, type));
  }
  return scores;
}

inline ValueId spell(Spelling& s, const AttentionForm& form) {
  s.type = form.type;
  ValueId q = s.permuted(projection(s, "q", form.queries, form.heads, form.batch), {0, 2, 1, 3});
  const ValueId k_rows = projection(s, "k", form.keys, form.kv_heads, form.batch);
  ValueId v = s.permuted(projection(s, "v", form.keys, form.kv_heads, form.batch), {0, 2, 1, 3});
  v = repeated(s, form, v);
  ValueId k = graph::no_value;
  if (form.keys_transposed == 0 && form.heads == form.kv_heads) {
    k = s.permuted(k_rows, {0, 2, 3, 1});
  } else {
    k = repeated(s, form, s.permuted(k_rows, {0, 2, 1, 3}));
    if (form.keys_transposed == 2) {
      k = s.reshaped(k, {form.batch * form.heads, form.keys, 8});
      k = s.reshaped(s.permuted(k, {0, 2, 1}), {form.batch, form.heads, 8, form.keys});
    } else {
      k = s.permuted(k, {0, 1, 3, 2});
    }
  }
  if (form.scale == 3) {
    q = s.scaled(q, 0.5);
    k = s.scaled(k, 0.75);
  }
  const auto merge = [&](ValueId x) {
    if (!form.merged) return x;
    const Shape& shape = s.shape(x);
    return s.reshaped(x, {form.batch * form.heads, shape[2], shape[3]});
  };
  const auto split = [&](ValueId x) {
    if (!form.merged) return x;
    const Shape& shape = s.shape(x);
    return s.reshaped(x, {form.batch, form.heads, shape[1], shape[2]});
  };
  ValueId p = s.matmul(merge(q), merge(k));
  if (form.scale == 1) p = s.scaled(p, 0.375);
  if (form.scale == 2) p = s.binary("Div", p, s.number(2.5, form.type));
  if (form.casts != 0) p = s.cast(p, DataType::float32);
  if (form.mask != MaskForm::none) p = merge(masked(s, form, split(p)));
  p = s.op("Softmax", {p}, s.shape(p), {{"axis", std::int64_t{-1}}});
  if (form.nan_guard) {
    const ValueId is_nan = s.typed(s.unary("IsNaN", p), DataType::boolean);
    p = s.where(is_nan, s.number(0, s.type_of(p)), p);
  }
  if (form.casts == 1) p = s.cast(p, form.type);
  if (form.casts >= 2) v = s.cast(v, DataType::float32);
  ValueId out = split(s.matmul(p, merge(v)));
  if (form.casts == 2) out = s.cast(out, form.type);
  if (form.result_transposed) out = s.permuted(out, {0, 2, 1, 3});
  return s.reshaped(out, {form.batch * form.queries, form.heads * 8});
}

inline ValueId result_of(Spelling& s, const std::string& op_type) {
  return std::ranges::find(s.graph.nodes, op_type, &graph::Node::op_type)->outputs[0];
}

}  // namespace autopar::runtime::testing
