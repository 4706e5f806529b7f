#include "graph/onnx/operands/operand_table.h"

#include "graph/contrib/families.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

constexpr OperandForms table[] = {
    // Element-wise
    {"Clip", "", "*, one, one"},
    {"Dropout", "", "*, one, one"},
    {"PRelu", "", "*, ~ 0[:]"},
    // Along one dimension
    {"ArgMax", "", "...@axis"},
    {"ArgMin", "", "...@axis"},
    {"CumProd", "", "_ ..., one"},
    {"CumSum", "", "_ ..., one"},
    {"DFT", "", "_ _ ..., one, one"},
    {"Hardmax", "", "...@axis"},
    {"LogSoftmax", "", "...@axis"},
    {"LpNormalization", "", "...@axis"},
    {"OneHot", "", "*, one, 2"},
    {"ReverseSequence", "", "...@time_axis, 0[@batch_axis]"},
    {"STFT", "", "b l 1 | b l 2 | b l, one, w, one"},
    {"Softmax", "", "...@axis"},
    {"TopK", "", "...@axis, one"},
    {"Trilu", "", "... _ _, one"},
    // Normalisations
    {"BatchNormalization", "", "_ c ..., c, c, c, c"},
    {"BatchNormalization", "", "_, 1, 1, 1, 1"},
    {"GroupNormalization", "", "_ @num_groups*k ..., @num_groups*k, @num_groups*k"},
    {"InstanceNormalization", "", "_ c ..., c, c"},
    {"LRN", "", "_ _ ..."},
    {"LayerNormalization", "", "...@axis, ~ 0[:], ~ 0[:]"},
    {"RMSNormalization", "", "...@axis, ~ 0[:]"},
    // Reductions
    {"ReduceL1", "", "*, _"},
    {"ReduceL2", "", "*, _"},
    {"ReduceLogSum", "", "*, _"},
    {"ReduceLogSumExp", "", "*, _"},
    {"ReduceMax", "", "*, _"},
    {"ReduceMean", "", "*, _"},
    {"ReduceMin", "", "*, _"},
    {"ReduceProd", "", "*, _"},
    {"ReduceSum", "", "*, _"},
    {"ReduceSumSquare", "", "*, _"},
    // Changes of shape
    {"Reshape", "", "*, _"},
    {"Squeeze", "", "*, () | _"},
    {"Unsqueeze", "", "*, () | _"},
    // Movements of data
    {"Compress", "", "*, _"},
    {"DepthToSpace", "", "_ @blocksize*@blocksize*c _ _"},
    {"Expand", "", "*, _"},
    {"Pad", "3", "*, 2*axes, one, axes"},
    {"Pad", "!3", "*, 2*rank, one"},
    {"Slice", "", "_ ..., n, n, n, n"},
    {"SpaceToDepth", "", "_ _ @blocksize*h @blocksize*w"},
    {"Split", "", "...@axis, outputs"},
    {"Tile", "", "*, rank"},
    // Indexing
    {"Gather", "", "...@axis, *"},
    {"GatherElements", "", "...@axis, *"},
    {"GatherND", "", "_ ..., _ ..."},
    {"ScatterElements", "", "...@axis, *, 1[:]"},
    {"ScatterND", "", "_ ..., _ ..., *"},
    {"TensorScatter", "", "b _ ..., b _ ..., b"},
    // Convolutions, pooling
    {"AveragePool", "", "_ _ _ ..."},
    {"Conv", "", "_ _ _ ..., c _ _ ..., c"},
    {"ConvInteger", "", "_ _ _ ..., c _ _ ..., one, one | c"},
    {"ConvTranspose", "", "_ _ _ ..., _ d _ ..., @group*d"},
    {"DeformConv", "", "n _ _ _, c _ y x, n @offset_group*2*y*x _ _, c, n @offset_group*y*x _ _"},
    {"GlobalAveragePool", "", "_ _ ..."},
    {"GlobalLpPool", "", "_ _ ..."},
    {"GlobalMaxPool", "", "_ _ ..."},
    {"LpPool", "", "_ _ _ ..."},
    {"MaxPool", "", "_ _ _ ..."},
    {"MaxUnpool", "", "_ _ _ ..., 0[:], rank"},
    // Sampling between elements
    {"AffineGrid", "", "n 2 3, 4"},
    {"AffineGrid", "", "n 3 4, 5"},
    {"Col2Im", "", "_ _ _, d, d"},
    {"GridSample", "", "n _ _ _, n _ _ 2"},
    {"GridSample", "", "n _ _ _ _, n _ _ _ 3"},
    {"MaxRoiPool", "", "_ _ _ _, r 5"},
    {"Resize", "", "*, 0 | 2*#axes, 0 | #axes, #axes"},
    {"RoiAlign", "", "_ _ _ _, r 4, r"},
    // Recurrent networks
    {"GRU", "layout=0", "_ b i, d 3*h i, d 3*h h, d 6*h, b, d b h"},
    {"GRU", "layout!=0", "b _ i, d 3*h i, d 3*h h, d 6*h, b, b d h"},
    {"LSTM", "layout=0", "_ b i, d 4*h i, d 4*h h, d 8*h, b, d b h, d b h, d 3*h"},
    {"LSTM", "layout!=0", "b _ i, d 4*h i, d 4*h h, d 8*h, b, b d h, b d h, d 3*h"},
    {"RNN", "layout=0", "_ b i, d h i, d h h, d 2*h, b, d b h"},
    {"RNN", "layout!=0", "b _ i, d h i, d h h, d 2*h, b, b d h"},
    // Matrix products
    {"Det", "", "... n n"},
    {"Gemm", "transA=0 transB=0", "m k, k n, ~ m n"},
    {"Gemm", "transA=0 transB!=0", "m k, n k, ~ m n"},
    {"Gemm", "transA!=0 transB=0", "k m, k n, ~ m n"},
    {"Gemm", "transA!=0 transB!=0", "k m, n k, ~ m n"},
    {"MatMul", "", "_ ..., _ ..."},
    // Quantised tensors
    {"DequantizeLinear", "", "*, one, one"},
    {"DequantizeLinear", "block_size=0", "*, 0[@axis], 0[@axis]"},
    {"DequantizeLinear", "", "*, 0[:@axis] 0[@axis]/@block_size 0[@axis+1:], 1[:]"},
    {"MatMulInteger", "", "k, k, one, one"},
    {"MatMulInteger", "", "k, ... k n, one, one | n | ... 1 n"},
    {"MatMulInteger", "", "... m k, k, one | m | ... m 1, one"},
    {"MatMulInteger", "", "... m k, ... k n, one | m | ... m 1, one | n | ... 1 n"},
    {"QLinearConv", "", "_ _ _ ..., one, one, c _ _ ..., one | c, one | c, one, one, c"},
    {"QLinearMatMul", "", "k, one, one, k, one, one, one, one"},
    {"QLinearMatMul", "", "k, one, one, ... k n, one | n | ... 1 n, one | n | ... 1 n, one, one"},
    {"QLinearMatMul", "",
     "... m k, one | m | ... m 1, one | m | ... m 1, k, one, one, one | m | ... m 1, "
     "one | m | ... m 1"},
    {"QLinearMatMul", "",
     "... m k, one | m | ... m 1, one | m | ... m 1, ... k n, one | n | ... 1 n, "
     "one | n | ... 1 n, one | m | ... m 1, one | m | ... m 1"},
    {"QuantizeLinear", "", "*, one, one"},
    {"QuantizeLinear", "block_size=0", "*, 0[@axis], 0[@axis]"},
    {"QuantizeLinear", "", "*, 0[:@axis] 0[@axis]/@block_size 0[@axis+1:], 1[:]"},
    {"MatMulNBits", "",
     "... @K, @N @K/@block_size bytes | _, "
     "@N*@K/@block_size | @N @K/@block_size, @N*groups | @N groups, *, @N",
     microsoft_domain},
    // Attention
    {"Attention", "", "b k*r s e, b k t e, b k t v, ~ b k*r s _, b k past e, b k past v, b"},
    {"Attention", "",
     "b s @q_num_heads*e, b t @kv_num_heads*e, b t @kv_num_heads*v, ~ b @q_num_heads s _, "
     "b @kv_num_heads past e, b @kv_num_heads past v, b"},
    {"RotaryEmbedding", "3", "b _ s _, _ a, 1[:], b s | 1 s | b 1 | 1 1"},
    {"RotaryEmbedding", "3", "b s @num_heads*_, _ a, 1[:], b s | 1 s | b 1 | 1 1"},
    {"RotaryEmbedding", "!3", "b _ s _, b s _ | 1 s _ | b 1 _ | 1 1 _, 1[:]"},
    {"RotaryEmbedding", "!3", "b s @num_heads*_, b s _ | 1 s _ | b 1 _ | 1 1 _, 1[:]"},
    {"GroupQueryAttention", "",
     "b _ _, b _ _, b _ _, b @kv_num_heads past _, b @kv_num_heads past _, b | b 1, one, _ a, "
     "7[:], "
     "_ | _ _",
     microsoft_domain},
    // Other domains' operators, which have a body
    {"GatherBlockQuantized", "", "_ ..., *, _ ..., _ ...", microsoft_domain},
    {"GroupNorm", "", "_ _ _ ..., c, c, *, c", microsoft_domain},
    {"SkipGroupNorm", "", "_ _ _ ..., c, c, *, c", microsoft_domain},
    {"RotaryEmbedding", "", "_ _ _ | _ _ _ _, one | _ _", microsoft_domain},
    {"Imputer", "", "_ ...", ml_domain},
    // Random numbers and tensors made of numbers
    {"BlackmanWindow", "", "one"},
    {"ConstantOfShape", "", "_"},
    {"EyeLike", "", "_ _"},
    {"HammingWindow", "", "one"},
    {"HannWindow", "", "one"},
    {"MelWeightMatrix", "", "one, one, one, one, one"},
    {"Multinomial", "", "_ _"},
    {"NonMaxSuppression", "", "b n 4, b _ n, one, one, one"},
    {"Range", "", "one, one, one"},
    // autopar's own
    {"TreeSums", "", "_ _, t n, t n, t n, t n 2, t l, t l", own_domain},
    {"ExpertMatMulNBits", "", "r _, r, e n _, e n _, e n _, e n", own_domain},
};

}  // namespace

std::span<const OperandForms> operand_table() { return table; }

std::span<const AxesInput> axes_inputs() {
  static constexpr AxesInput inputs[] = {
      {"CumProd", 1},   {"CumSum", 1},          {"DFT", 2},          {"Pad", 3},
      {"ReduceL1", 1},  {"ReduceL2", 1},        {"ReduceLogSum", 1}, {"ReduceLogSumExp", 1},
      {"ReduceMax", 1}, {"ReduceMean", 1},      {"ReduceMin", 1},    {"ReduceProd", 1},
      {"ReduceSum", 1}, {"ReduceSumSquare", 1}, {"Slice", 3},        {"Squeeze", 1},
  };
  return inputs;
}

std::span<const AttributeWords> attribute_words() {
  static constexpr AttributeWords lines[] = {
      {"", "auto_pad", "NOTSET SAME_LOWER SAME_UPPER VALID"},
      {"BitShift", "direction", "LEFT RIGHT"},
      {"DepthToSpace", "mode", "CRD DCR"},
      {"GRU", "direction", "forward reverse bidirectional"},
      {"Gelu", "approximate", "none tanh"},
      {"GridSample", "mode", "linear bilinear nearest cubic bicubic"},
      {"GridSample", "padding_mode", "zeros border reflection"},
      {"LSTM", "direction", "forward reverse bidirectional"},
      {"NegativeLogLikelihoodLoss", "reduction", "none mean sum"},
      {"Pad", "mode", "constant reflect edge wrap"},
      {"RNN", "direction", "forward reverse bidirectional"},
      {"Resize", "keep_aspect_ratio_policy", "stretch not_larger not_smaller"},
      {"Resize", "mode", "nearest linear cubic"},
      {"Resize", "nearest_mode", "round_prefer_floor round_prefer_ceil floor ceil"},
      {"RoiAlign", "mode", "avg max"},
      {"ScatterElements", "reduction", "none add mul max min"},
      {"ScatterND", "reduction", "none add mul max min"},
      {"SoftmaxCrossEntropyLoss", "reduction", "none mean sum"},
      {"TensorScatter", "mode", "linear circular"},
  };
  return lines;
}

std::string_view flag_attributes() {
  return "align_corners allowzero antialias ceil_mode center_point_box count_include_pad "
         "detect_negative detect_positive exclude_outside exclusive fmod input_forget interleaved "
         "inverse is_causal keepdims largest layout linear_before_reset noop_with_empty_axes "
         "onesided periodic reverse saturate select_last_index sorted storage_order training_mode "
         "transA transB upper";
}

}  // namespace autopar::graph
