#include "instances.h"

namespace autopar::rule_check {
namespace {

constexpr std::string_view table = R"(
Abs 4x6
Acos 4x6@-0.9..0.9
Acosh 4x6@1..3
Add 4x5 5
Add 1x6 4x1
Add . 3x5
And b:4x6 b:6
Asin 4x6@-0.9..0.9
Asinh 4x6
Atan 4x6
Atanh 4x6@-0.9..0.9
BitCast@26(to=6) 4x6
BitShift(direction=LEFT) u8:4x6 u8:6<3
BitwiseAnd i32:4x6 i32:4x1
BitwiseNot i32:4x6
BitwiseOr i32:4x6 i32:6
BitwiseXor i32:4x6 i32:6
Cast(to=6) 4x6
Cast(to=10) 4x5
CastLike 4x6 h:3
CastLike 4x6 i:.
Ceil 4x6
Celu 4x6
Clip 4x6 - .
Cos 4x6
Cosh 4x6
Div 4x6 +6
Div i:4x6 i:5x1x6@1..9
Dropout 4x6
Dropout 4x6 - - -> 2
Elu 4x6
Equal i:4x6~2 i:6~2
Erf 4x6
Exp 4x6
Floor 4x6
Gelu 4x6
Gelu(approximate=tanh) 4x6
Greater 4x6 6
GreaterOrEqual 4x6 4x1
HardSigmoid 4x6
HardSwish 4x6
Identity 4x6
IsInf 4x6
IsNaN 4x6
LeakyRelu 4x6
Less 4x6 6
LessOrEqual 4x6 6
Log +4x6
Max 4x6 6 4x1
Mean 4x6 6 4x1
Min 4x6 6
Mish 4x6
Mod i:4x6 i:6@1..9
Mul 4x6 6
Mul i:4x5 i:4x5
Neg 4x6
Not b:4x6
Or b:4x6 b:4x6
PRelu 4x6 6
Pow +4x6 6
Reciprocal +4x6
Relu 4x6
Round 4x6
Selu 4x6
Shrink 4x6
Sigmoid 4x6
Sign 4x6
Sin 4x6
Sinh 4x6
Softplus 4x6
Softsign 4x6
Sqrt +4x6
Sub 4x6 6
Sum 4x6 6 4x1
Swish@24 4x6
Tan 4x6
Tanh 4x6
ThresholdedRelu 4x6
Where b:4x6 6 4x1
Where b:6 4x6 .
Xor b:4x6 b:6

QuantizeLinear 4x6 =0.5 u8=3
QuantizeLinear 4x6x3 +6
QuantizeLinear(axis=0) 4x6 +4 u8:4
QuantizeLinear(axis=1;block_size=3) 4x6 +4x2
QuantizeLinear(axis=0;block_size=2) 8x5 +4x5 u8:4x5
DequantizeLinear u8:4x6 =0.5 u8=3
DequantizeLinear(axis=1) i8:4x6 +6 i8:6
DequantizeLinear(axis=-2) i32:4x6 +4
DequantizeLinear(axis=1;block_size=3) u8:4x6 +4x2 u8:4x2
DequantizeLinear(axis=0;block_size=2) i8:8x5 +4x5
DynamicQuantizeLinear 4x6 -> 3

MatMul 4x6 6x8
MatMul 2x4x6 6x5
MatMul 3x1x4x6 5x6x8
MatMul 6 3x6x8
MatMul 4x6 6
MatMul 5 5
MatMul i32:4x6 i32:6x8
Gemm 4x6 6x8
Gemm(transA=1;transB=1) 6x4 8x6 8
Gemm(alpha=0.5;beta=2.0) 4x5 5x8 4x1
Gemm 4x6 6x8 4x8
Gemm 4x6 6x8 .
MatMulInteger u8:4x6 i8:6x8
MatMulInteger u8:3x4x6 u8:6x8 u8:. u8:.
MatMulInteger u8:4x6 i8:6x8 u8:4 i8:8
MatMulInteger u8:3x4x6 i8:3x6x8 u8:. i8:3x1x8
QLinearMatMul u8:4x6<9 +. u8:.<9 u8:6x8<9 +. u8:.<9 +. u8=128
QLinearMatMul u8:4x6<9 +4 u8:4<9 u8:6x8<9 +8 u8:8<9 +. u8=128
QLinearMatMul u8:3x4x6<9 +. u8:.<9 u8:6x8<9 +. u8:.<9 +. u8=128
Einsum(equation=ij,jk->ik) 4x6 6x8
Einsum(equation=bhsd,bhtd->bhst) 2x3x4x5 2x3x6x5
Einsum(equation=ij,jk) 4x5 5x6
Einsum(equation=ii->i) 4x4
Einsum(equation=...ij,...jk->...ik) 2x3x4x6 2x3x6x5
Einsum(equation=...ij,jk->...ik) 2x3x4x6 6x5
Einsum(equation=b...,b...->b) 4x3x5 4x3x5
Einsum(equation=ij->) 4x6
Einsum(equation=ecd,edf->ecf) 4x5x6 4x6x3
Det 3x4x4

ArgMax(axis=1) 4x6
ArgMax(axis=0;keepdims=0) 4x6
ArgMin(axis=-1;select_last_index=1) 3x4x6
CumSum 4x6 =1
CumProd@26 4x6 =1
CumSum(exclusive=1;reverse=1) 4x6x5 =-2
Hardmax(axis=0) 4x6
LogSoftmax 4x6
LogSoftmax(axis=0) 4x6
LpNormalization(axis=1) 4x6
LpNormalization(p=1) d:4x6
OneHot i:4x3<6 =6 2
OneHot(axis=0) i:4x3<5 =5 2
Softmax(axis=1) 4x6x3
Softmax 5x6
Softmax h:5x6
TopK(axis=1) 4x6 [2] -> 2
TopK(axis=0) 4x6 [3] -> 2
Trilu(upper=0) 3x4x6 =1
Trilu 4x6
Trilu 5x5 =-1
ReverseSequence(batch_axis=1;time_axis=0) 4x6x3 i:6<5
ReverseSequence(batch_axis=0;time_axis=1) 4x6x3 i:4<7

BatchNormalization 3x4x6 4 4 4 +4
BatchNormalization(training_mode=1) 3x4x6 4 4 4 +4 -> 3
GroupNormalization(num_groups=4) 3x12x5 12 12
GroupNormalization(num_groups=1) 2x6x4x3 6 6
GroupNormalization(num_groups=2) 1x4x3 4 4
InstanceNormalization 3x4x6 4 4
LayerNormalization 4x6 6 6
LayerNormalization h:4x6 h:6 h:6 -> 3
LayerNormalization(axis=1) 3x4x6 4x6
LayerNormalization(axis=-2) 2x3x4x6 4x6 4x6 -> 3
RMSNormalization 4x6 6
RMSNormalization(axis=1) 3x4x6 4x6
LRN(size=3;alpha=1.0) 3x4x5x6
MeanVarianceNormalization 3x4x5x6
MeanVarianceNormalization(axes=[0,2]) 3x4x5

ReduceL1 4x6 [1]
ReduceL1(keepdims=0) 4x6x3 [-1,0]
ReduceL2 4x6 [0]
ReduceL2(keepdims=0) h:4x6x3 [0,2]
ReduceLogSum +4x6 [1]
ReduceLogSumExp 4x6 [1]
ReduceLogSumExp(keepdims=0) d:4x6
ReduceMax 4x6 [0]
ReduceMax i32:4x6 [0]
ReduceMax(keepdims=0) 4x6x5 [1,2]
ReduceMean 4x6 [1]
ReduceMean(keepdims=0) 4x6x5
ReduceMean i32:4x6 [0]
ReduceMin 4x6 [1]
ReduceMin b:4x6 [1]
ReduceProd 4x6 [1]
ReduceSum 4x6 [1]
ReduceSum i:4x6 [1]
ReduceSum(keepdims=0) 4x5x6 [0,2]
ReduceSum(noop_with_empty_axes=1) 4x5x6
ReduceSumSquare 4x6 [0]

Flatten 2x3x4
Flatten(axis=2) 4x6x5
Reshape 4x6 [4,2,3]
Reshape 4x2x3 [4,6]
Reshape 4x6 [24]
Reshape 4x6 [0,-1]
Reshape 4x6 [3,8]
Reshape 1x4x6 [4,3,2]
Squeeze 4x1x6 [1]
Squeeze 4x1x6x1
Unsqueeze 4x6 [1]
Unsqueeze 4x6 [0,3]

Concat(axis=1) 4x6 4x2
Concat(axis=-2) 4x6 4x6 4x6
Expand 4x1 [2,4,6]
Expand 1x6 [4,1]
Expand 5 [3,5]
Pad 4x6 [0,1,0,2]
Pad 4x6 [0,0,0,2]
Pad 4x6 [0,1,0,2] =0.0
Pad(mode=reflect) 4x6 [2,0,1,0]
Pad 4x6x3 [1,1] =1.5 [1]
Slice 4x6 [1] [5] [1]
Slice 4x6 [0,-1] [9,-7] [0,1] [1,-1]
Slice 4x6x5 [0,1] [2,4]
Slice 4x6 [0] [6] [1] [2]
Split(axis=1;num_outputs=2) 4x6 -> 2
Split 4x6 [1,3] -> 2
Tile 4x6 [1,2]
Tile 4x5 [3,1]
Tile 4x1x5 [1,6,2]
Transpose 4x6
Transpose(perm=[1,2,0]) 4x6x5
Col2Im 2x12x6 [3,4] [2,2]

Gather 6x4 i:2x3~6
Gather(axis=1) 4x6 i:5<6
Gather(axis=-1) b:4x6 i:5~6
Gather 6x4 i32:.<6
GatherElements(axis=1) 4x6 i:4x3<6
GatherElements 4x6 i:2x6~4
GatherElements 4x6 i:3x5~4
GatherND 4x6x3 i:5x2<4
GatherND 4x6x3 i:5x1~4
GatherND(batch_dims=1) 4x6x3 i:4x2x1<6
ScatterElements(axis=1) 4x6 i:4x3<6 4x3
ScatterElements(axis=0;reduction=add) 4x6 i:2x6~4 2x6
ScatterElements(reduction=max) 4x6 i:2x6~4 2x6
ScatterElements(axis=1) 4x6 i:3x6<6 3x6
ScatterND 6x4x5 i:3x1~6 3x4x5
ScatterND(reduction=add) 6x4x5 i:3x2<4 3x5
ScatterND(reduction=max) 4x6 i:3x1<4 3x6
TensorScatter@24 4x3x8x5 4x3x2x5 i:4<7
TensorScatter@24(axis=1) 4x8x5 4x2x5 i:4<7

AveragePool(kernel_shape=[3]) 3x4x6
AveragePool(kernel_shape=[2,3];strides=[2,1]) 3x4x6x5
Conv 2x4x6 5x4x3
Conv 2x4x6 5x4x3 5
Conv(pads=[1,1,1,1]) 3x4x5x6 6x4x3x3 6
Conv(group=4) 2x8x6 12x2x3 12
Conv(group=6) 2x6x5 6x1x3
Conv(group=2) 2x6x5 4x3x3 4
ConvInteger u8:2x4x6 u8:5x4x3
ConvInteger u8:2x4x6 u8:5x4x3 u8:. u8:.
ConvInteger(group=2) u8:2x4x6 u8:6x2x3 u8:.
ConvTranspose 2x4x6 4x5x3
ConvTranspose 2x4x6 4x5x3 5
ConvTranspose(group=2;strides=[2]) 2x4x6 4x3x3 6
QLinearConv u8:2x4x6<9 +. u8:.<9 u8:5x4x3<9 +. u8:.<9 +. u8=128
QLinearConv u8:2x4x6<9 +. u8:.<9 i8:5x4x3~5 +5 i8:5~5 +. u8=128 i32:5
QLinearConv(group=2) u8:2x4x6<9 +. u8:.<9 u8:6x2x3<9 +6 u8:6<9 +. u8=128
DeformConv 3x4x6x5 6x4x2x2 3x8x5x4 6 3x4x5x4
DeformConv(group=2) 3x4x6x5 6x2x2x2 3x8x5x4
DeformConv 2x4x6x5 3x4x2x2 2x8x5x4
DepthToSpace(blocksize=2) 3x8x5x6
DepthToSpace(blocksize=2;mode=CRD) 3x8x5x6
SpaceToDepth(blocksize=2) 3x5x4x6
GlobalAveragePool 3x4x6
GlobalLpPool 3x4x6
GlobalMaxPool 3x4x6
GridSample 3x4x5x6 3x2x7x2
LpPool(kernel_shape=[3]) 3x4x6
MaxPool(kernel_shape=[3]) 3x4x6
MaxPool(kernel_shape=[2,3]) 3x4x5x6 -> 2
MaxRoiPool(pooled_shape=[2,2];spatial_scale=3.0) 2x3x6x6 +5x5
MaxUnpool(kernel_shape=[2]) 3x4x3 i:3x4x3<6
Resize 3x4x6 - - [3,4,12]
Resize(mode=linear) 3x4x6 - - [3,8,6]
Resize(axes=[2]) 3x4x6 - - [9]
RoiAlign(output_height=2;output_width=3) 2x4x6x5 +3x4 i:3<2
AffineGrid 4x2x3 [4,1,5,6]

RNN(hidden_size=4) 5x3x6 1x4x6 1x4x4 1x8 - 1x3x4 -> 2
RNN(hidden_size=4;direction=bidirectional) 5x3x6 2x4x6 2x4x4 -> 2
GRU(hidden_size=4) 5x3x6 1x12x6 1x12x4 1x24 - 1x3x4 -> 2
GRU(hidden_size=4;direction=bidirectional;linear_before_reset=1) 5x3x6 2x12x6 2x12x4 2x24 -> 2
LSTM(hidden_size=4) 5x3x6 1x16x6 1x16x4 1x32 - 1x3x4 1x3x4 1x12 -> 3
LSTM(hidden_size=4;direction=bidirectional) 5x3x6 2x16x6 2x16x4 2x32 -> 3
LSTM(hidden_size=4;layout=1) 3x5x6 1x16x6 1x16x4 -> 3

DFT 4x5x6x1 - =1
DFT(inverse=1) 4x5x6x2 =6 =2
STFT 4x12x1 =2 6
STFT 4x12x1 =2 - =6
BlackmanWindow =6
HammingWindow =6
HannWindow =6
MelWeightMatrix =4 =16 =8000 =0.0 =4000.0

Attention 2x8x5x4 2x4x7x4 2x4x7x3
Attention 2x8x5x4 2x4x7x4 2x4x7x3 1x8x5x7
Attention 2x6x5x4 2x1x7x4 2x1x7x3
Attention(is_causal=1) 2x6x5x4 2x6x5x4 2x6x5x4 2x1x5x5
Attention(q_num_heads=8;kv_num_heads=4) 2x5x32 2x7x16 2x7x12
Attention(q_num_heads=8;kv_num_heads=4;is_causal=1) 2x5x32 2x7x16 2x7x12 - 2x4x6x4 2x4x6x3 -> 3
Attention@24 2x8x5x4 2x4x7x4 2x4x7x3 - - - i:2<7
RotaryEmbedding 2x4x6x8 2x6x4 2x6x4
RotaryEmbedding(num_heads=4) 3x6x32 9x4 9x4 i:3x6<9
RotaryEmbedding(interleaved=1;rotary_embedding_dim=4) 2x4x6x8 9x2 9x2 i:2x6<9

com.microsoft::MatMulNBits(K=32;N=6;block_size=16;bits=4) 4x32 u8:6x2x8 6x2
com.microsoft::MatMulNBits(K=64;N=6;block_size=16;bits=4) 3x64 u8:6x4x8 24
com.microsoft::MatMulNBits(K=32;N=6;block_size=16;bits=4) 2x4x32 u8:6x2x8 6x2 - - 6
com.microsoft::MatMulNBits(K=64;N=6;block_size=16;bits=4) 4x64 u8:6x4x8 24 u8:12
com.microsoft::MatMulNBits(K=64;N=6;block_size=16;bits=4) 5x64 u8:6x4x8 6x4 u8:6x2 - 6
com.microsoft::MatMulNBits(K=64;N=5;block_size=16;bits=8) 3x64 u8:5x4x16 5x4 5x4

autopar.ops::ExpertMatMulNBits(bits=4;block_size=16) 5x64 i:5<4 u8:4x6x32 4x6x4
autopar.ops::ExpertMatMulNBits(bits=4;block_size=16) 5x64 i:5<3 u8:3x5x32 3x5x4 u8:3x5x2 3x5
autopar.ops::ExpertMatMulNBits(bits=8;block_size=16) h:4x48 i:4<3 u8:3x4x48 h:3x4x3
autopar.ops::ExpertMatMulNBits(bits=4) 5x32 i:5<4 u8:4x6x16 4x6x1 u8:4x6x1 4x6
autopar.ops::ExpertMatMulNBits(bits=2;block_size=16) 3x40 i:3<2 u8:2x6x10 2x6x3
autopar.ops::TreeSums(n_targets=3) 4x5 i32:6x5<5 6x5 u8:6x5<7 i32:6x5x2<3 i32:6x4<3 6x4
autopar.ops::TreeSums(n_targets=2;aggregate=MAX) d:4x5 i32:24x5<5 d:24x5 u8:24x5<7 i32:24x5x2<3 i32:24x4<2 d:24x4

ConstantOfShape [6]
EyeLike 4x6
Range =0 =6 =1
Shape 4x6
Size 4x6
)";

constexpr std::string_view nobody_sums_parameters = "what scales and shifts is no sum of a product";

constexpr std::string_view whole_scale =
    "nearest elements at a whole scale; others look beyond their share";
constexpr std::string_view folded = "folded before there is a plan";

constexpr Reason explained[] = {
    {"ConstantOfShape", "", folded},
    {"RotaryEmbedding", "linear in 1,2", nobody_sums_parameters},
    {"Size", "", folded},
    {"STFT", "linear in 2", nobody_sums_parameters},
    {"Slice", "RS0,R,R,R,R->RS0", "shares would have to begin at a multiple of the step"},
    {"Cast", "linear in 0", "a sum in a coarser type is rounded once, not in parts"},
    {"GroupNormalization", "linear in 1,2", nobody_sums_parameters},
    {"LayerNormalization", "linear in 1", nobody_sums_parameters},
    {"LayerNormalization", "linear in 1,2", nobody_sums_parameters},
    {"OneHot", "linear in 2", nobody_sums_parameters},
    {"RMSNormalization", "linear in 1", nobody_sums_parameters},
    {"AveragePool", "RRS0R->RRS0R", "shares would have to begin at a multiple of the stride"},
    {"BatchNormalization", "linear in 1,2", nobody_sums_parameters},
    {"BatchNormalization", "linear in 0,2,3", nobody_sums_parameters},
    {"DeformConv", "linear in 3,4", "what weighs samples is no sum of a product"},
    {"DequantizeLinear", "linear in 1", nobody_sums_parameters},
    {"InstanceNormalization", "linear in 1,2", nobody_sums_parameters},
    {"Resize", "RRS0,.,.,R->RRS0", whole_scale},
    {"autopar.ops::ExpertMatMulNBits", "linear in 3", nobody_sums_parameters},
    {"autopar.ops::ExpertMatMulNBits", "linear in 3,5", nobody_sums_parameters},
    {"autopar.ops::TreeSums", "linear in 6", nobody_sums_parameters},
    {"autopar.ops::TreeSums", "RR,S0R,S0R,S0R,S0RR,S0R,S0R->RR max",
     "what has no vote is 0, and a share of the trees may have none"},
    {"com.microsoft::MatMulNBits", "linear in 2", nobody_sums_parameters},
    {"com.microsoft::MatMulNBits", "linear in 2,5", nobody_sums_parameters},
    {"CastLike", "linear in 0", "a sum in a coarser type is rounded once, not in parts"},
};

}  // namespace

std::vector<std::string_view> instances() {
  std::vector<std::string_view> lines;
  for (std::string_view rest = table; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    if (end > 0) lines.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return lines;
}

std::span<const Reason> reasons() { return explained; }

}  // namespace autopar::rule_check
