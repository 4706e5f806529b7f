#pragma once

#include "graph/graph.h"
#include "runtime/kernel.h"

namespace autopar::runtime {
class ConstantStore;
}

/// Rewrites of a graph before it is compiled. Each keeps what the graph computes and leaves dead
/// nodes to graph::remove_dead_nodes.
namespace autopar::runtime::passes {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// The domain of operators that only the compiler makes. A *permutation* of an operand is the
/// `perm` of the Transpose by which the operand as stored is read as the operator has it; one of a
/// result (`out_perm`), that of the Transpose that makes what is stored of it. Where it is absent
/// nothing is permuted. A mask broadcasts to the scores: of a floating type, it is added; a
/// boolean, it leaves scores where it is true and puts `fill` (float, -inf) elsewhere.
///
///   FusedMatMul(A, B, bias?)  transA, transB (ints): the last two dimensions of A or B swapped
///                             before the product; or a_perm, b_perm (ints): the permutation of all
///                             dimensions, never together with the flag. bias has one element a
///                             column. activation: "Relu", "Gelu" or "GeluTanh" of the sum. Then
///                             out_perm (ints)
///   MaskedSoftmax(X, mask?)   over the last dimension, of scale (float) times X under the mask.
///                             nan_to_zero (int): 1 where a row that comes out as NaN, all its keys
///                             masked by -inf, is to be zeros
///   RotaryEmbedding(X, cos, sin)
///                             X cos + rotated sin, where the last dimension, of d elements, is
///                             rotated to -X[..., d/2:], X[..., :d/2]; cos and sin broadcast to X
///   Attention(Q, K, V, mask?) softmax(scale Q K^T under the mask) V for Q [B, H, S, D],
///                             K [B, G, T, D], V [B, G, T, E], where query head h reads head
///                             h / (H / G) of K and V. scale (float); causal (int): 1 where query i
///                             sees keys up to i + T - S alone; fill and nan_to_zero as above;
///                             q_perm, k_perm, v_perm, out_perm (ints). The result is [B, H, S, E].
///                             Q, K, V and the result have one type, the mask may have another
///   QuantizedMatMul(A, B, scale, a_zero?, b_zero?)
///                             scale times the product of A - a_zero and B - b_zero, of int8 or
///                             uint8, in float32, the sums in 32 bits. scale has one element, or
///                             one a column of the result; zero points have one
///   QuantizedConv(X, W, scale, x_zero?, bias?)
///                             Conv, with its attributes, of X - x_zero and W, of int8 or uint8,
///                             the zero point of W being 0 or 128; then times scale, of one element
///                             or one a channel of the result, plus bias, in float32. W is a
///                             constant
///   GatheredMatMul(A, B, indices)
///                             the product of A and B, one of which is a constant table
///                             [matrices, rows, columns]: A where `table` (int) is 0, B where it is
///                             1. Its matrix number indices[i] stands at i; the other one has a
///                             vector there, a column or a row
///   ChannelsLastConv(X, W, bias?, addend?), ChannelsLastAveragePool, ChannelsLastMaxPool
///                             as ONNX's Conv, AveragePool and MaxPool, of images
///                             [image, height, width, channel], or series [series, place, channel].
///                             addend has the result's shape; activation: "Relu" or "HardSwish" of
///                             the sum; channels_second (int): 1 where X is as ONNX has it
///   ChannelsLastConvMaximum(X, W, bias?)
///                             the largest of all places of such a convolution by windows of one
///                             place, in steps of 1, all of whose channels are one group. W is a
///                             constant
///   ChannelsLastGroupNormalization(X, scale, bias)
///                             as ONNX's GroupNormalization of such images, a group a channel where
///                             there is no num_groups
///   ElementwiseChain(...)     several element-wise operators (kernels/elementwise/chain.h)
///   CollectiveGroup(...)      several collectives that go out together, input i and output i of
///                             member i (kernels/collective/collective_group.h)
///
/// A collective of images with their channels last has channels_last (int) 1, and its dimensions
/// are those of such images.
inline constexpr const char* internal_domain = "autopar.internal";

// Each pass makes an operator only where the device has a kernel that serves it. New constants that
// may be large are kept by the store, where there is one.

/// MatMul of a Transpose becomes a FusedMatMul with transA or transB. A Transpose of the last two
/// dimensions vanishes. One of more dimensions that brings the innermost to the second last place
/// becomes one that leaves it innermost, which copies whole rows, if nothing else reads it.
void fuse_transposes(Graph& graph, const KernelTable& kernels);

/// Runs nodes whose inputs are all constants, unless their outputs are large though the inputs are
/// small. Returns the bytes of memory that the new constants take.
std::int64_t fold_constants(Graph& graph, ConstantStore* store = nullptr);

/// BatchNormalization of a Conv that nothing else reads, and Mul and Add of a constant with one
/// element a channel, go into its weights and bias where all these are constants, in types that
/// lose nothing by it. Returns the bytes that the new constants take beyond those that they
/// replace.
std::int64_t fold_channel_scales(Graph& graph, const KernelTable& kernels,
                                 ConstantStore* store = nullptr);

/// What reads a Cast, Reshape, Expand or Transpose that changes nothing, a Cast to a wider type and
/// back, or a Where whose constant condition is the same everywhere, reads what that reads.
void drop_identities(Graph& graph, const KernelTable& kernels);

/// LayerNormalization and RMSNormalization over the last dimension that are written out: with the
/// square as Pow or Mul, the root as Sqrt or Pow, the quotient as Div or by a Reciprocal, in half
/// types between Casts.
void fuse_normalizations(Graph& graph, const KernelTable& kernels);

/// InstanceNormalization of images whose groups of channels a Reshape has made channels, and Mul
/// and Add of a constant with one element a channel behind it, become GroupNormalization, in
/// float32.
void fuse_group_normalizations(Graph& graph, const KernelTable& kernels);

/// Relu of a convolution whose maxima alone are read becomes Relu of the maxima, which are fewer.
void move_relus_behind_maxima(Graph& graph, const KernelTable& kernels);

/// Convolutions, and what lies between them, compute on images whose channels are the last
/// dimension, which are called after the images as ONNX has them: Transposes stand where others
/// read or make them. Collectives between them move such images, which all members of their group
/// must choose alike.
void move_channels_last(Graph& graph, const KernelTable& kernels);
inline constexpr const char* channels_last_suffix = ":channels_last";
/// The same, but for collectives, which move images as ONNX has them.
void move_channels_last_within_rank(Graph& graph, const KernelTable& kernels);
/// Whether there is anything to choose; the same on all ranks of a stage.
bool may_move_collectives(const Graph& graph, const KernelTable& kernels);
/// A digest that tells which of the graph's collectives move images with their channels last.
std::uint64_t digest_of_moved_collectives(const Graph& graph);

/// Add of another image, and Relu or HardSwish, right after a ChannelsLastConv that nothing else
/// reads, become its addend and its activation; ReduceMax over all places makes it a
/// ChannelsLastConvMaximum. A Transpose of an image of few channels before
/// it becomes channels_second.
void fuse_convolutions(Graph& graph, const KernelTable& kernels);

/// Gelu of either kind and x sigmoid(a x), a Swish, that are written out, in any order of factors.
void fuse_activations(Graph& graph, const KernelTable& kernels);

/// RotaryEmbedding that is written out with Slice or Split. One after a Transpose goes before it
/// where cos and sin need no Transpose for that.
void fuse_rotary_embeddings(Graph& graph, const KernelTable& kernels);

/// Attention that is written out, on four dimensions or on three, of which the first has samples
/// and heads. Taken into it are: Casts on the way; a scale of the scores, or of queries and keys;
/// masks, of which constant ones that hide nothing are dropped, and those that hide later keys,
/// with numbers that no score outweighs, are the attribute `causal`; a guard against NaN; the
/// repetition of heads of K and V; Transposes and Reshapes before and behind. In half types, scores
/// and probabilities are no longer rounded, and rows without any visible key may differ.
void fuse_attention(Graph& graph, const KernelTable& kernels);

/// Softmax over the last dimension, with its scale, the last mask, a guard against NaN and Casts,
/// becomes MaskedSoftmax.
void fuse_masked_softmax(Graph& graph, const KernelTable& kernels);

/// Gemm that scales nothing and adds a row at most becomes a FusedMatMul; Add of a constant with
/// one element a column, right after a MatMul that nothing else reads, its bias.
void fuse_biases(Graph& graph, const KernelTable& kernels);

/// Relu or Gelu of a product that nothing else reads, a Reshape between them or none, becomes the
/// FusedMatMul's activation.
void fuse_product_activations(Graph& graph, const KernelTable& kernels);

/// Transposes before and behind products, with Reshapes beside them, become permutations.
void fuse_permutations(Graph& graph, const KernelTable& kernels);

/// A product or convolution of what DequantizeLinear makes, or MatMulInteger or ConvInteger that is
/// cast to float32 and scaled, becomes QuantizedMatMul or QuantizedConv. Rows are gathered from a
/// table before they are dequantised.
void fuse_quantized_products(Graph& graph, const KernelTable& kernels,
                             ConstantStore* store = nullptr);

/// A product of a vector with a matrix that Gather or GatherND takes out of a constant, as a
/// mixture of experts has it, becomes GatheredMatMul: no matrix is copied.
void fuse_gathered_products(Graph& graph, const KernelTable& kernels);

/// Element-wise nodes that follow one another on tensors of one shape, and whose results between
/// nothing else reads, become one ElementwiseChain at the last one's place. It computes them tile
/// by tile, so that what lies between never leaves the cache.
void fuse_elementwise_chains(Graph& graph, const KernelTable& kernels);

/// Collectives that follow one another, with other operators at most between them, become one
/// CollectiveGroup at the first one's place if all that they read is made before it. Collectives of
/// constants stay: they are always ready, and what they make had better not live longer. All ranks
/// must send in one order, so this looks at the graph's structure alone, which their graphs share,
/// never at sizes.
void group_collectives(Graph& graph);
bool has_collective_groups(const Graph& graph);

struct Rewrites {
  bool fuse = true;               ///< folding included
  bool group_collectives = true;  ///< the same on all ranks
  bool move_collectives = true;   ///< that their images have channels last; the same on all ranks
};

/// All that are wanted and that the device has kernels for, in the order that lets each do the
/// most, but for fusions that would make the arena larger than the graph needs without. Returns
/// fold_constants' bytes.
std::int64_t optimize(Graph& graph, const KernelTable& kernels, Rewrites rewrites = {},
                      ConstantStore* store = nullptr);

}  // namespace autopar::runtime::passes
