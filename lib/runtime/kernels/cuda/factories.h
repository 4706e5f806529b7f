#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime::cuda {

// What makes each kernel; table.cpp says which operator each serves. As in kernels/cpu/factories.h.

// Data movement.
std::unique_ptr<Kernel> make_pad(const KernelRequest& request);
std::unique_ptr<Kernel> make_trilu(const KernelRequest& request);
std::unique_ptr<Kernel> make_gather(const KernelRequest& request);
std::unique_ptr<Kernel> make_gather_elements(const KernelRequest& request);
std::unique_ptr<Kernel> make_gather_nd(const KernelRequest& request);
std::unique_ptr<Kernel> make_scatter_elements(const KernelRequest& request);
std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request);
std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request);
std::unique_ptr<Kernel> make_tensor_scatter(const KernelRequest& request);

// Generators (others in kernels/generators.h).
std::unique_ptr<Kernel> make_range(const KernelRequest& request);
std::unique_ptr<Kernel> make_eye_like(const KernelRequest& request);

// Products.
/// MatMul, Gemm and FusedMatMul.
std::unique_ptr<Kernel> make_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_gathered_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_matmul_n_bits(const KernelRequest& request);
std::unique_ptr<Kernel> make_conv(const KernelRequest& request);
/// The same, of so many images at a time that their windows, laid out in scratch memory, take no
/// more bytes than that; one image at least.
std::unique_ptr<Kernel> make_conv_within(const KernelRequest& request,
                                         std::int64_t most_window_bytes);
// Element-wise operators have a table of their own (runtime/kernels/elementwise_table.h).
std::unique_ptr<Kernel> make_elementwise(const KernelRequest& request);
/// Cast and CastLike: element-wise unless a type is one that no operator computes in.
std::unique_ptr<Kernel> make_cast(const KernelRequest& request);
std::unique_ptr<Kernel> make_elementwise_chain(const KernelRequest& request);

// Normalisations, reductions.
std::unique_ptr<Kernel> make_softmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_masked_softmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_layer_normalization(const KernelRequest& request);
std::unique_ptr<Kernel> make_rms_normalization(const KernelRequest& request);
/// ONNX's RotaryEmbedding and the compiler's.
std::unique_ptr<Kernel> make_rotary_embedding(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_sum(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_mean(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_prod(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_max(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_min(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_sum_square(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_log_sum(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_log_sum_exp(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_l1(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_l2(const KernelRequest& request);
std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request);
std::unique_ptr<Kernel> make_cumprod(const KernelRequest& request);

// Choosing among the elements of rows.
std::unique_ptr<Kernel> make_arg_max(const KernelRequest& request);
std::unique_ptr<Kernel> make_arg_min(const KernelRequest& request);
std::unique_ptr<Kernel> make_hardmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_top_k(const KernelRequest& request);

// Random numbers, and what is rare.
std::unique_ptr<Kernel> make_random_uniform(const KernelRequest& request);
std::unique_ptr<Kernel> make_random_normal(const KernelRequest& request);
std::unique_ptr<Kernel> make_bernoulli(const KernelRequest& request);
std::unique_ptr<Kernel> make_multinomial(const KernelRequest& request);
std::unique_ptr<Kernel> make_reverse_sequence(const KernelRequest& request);
std::unique_ptr<Kernel> make_determinant(const KernelRequest& request);
/// Of kernels/fourier_items.h.
std::unique_ptr<Kernel> make_fourier_rows(const KernelRequest& request);

// Quantisation.
std::unique_ptr<Kernel> make_quantize_linear(const KernelRequest& request);
std::unique_ptr<Kernel> make_dequantize_linear(const KernelRequest& request);
std::unique_ptr<Kernel> make_matmul_integer(const KernelRequest& request);
std::unique_ptr<Kernel> make_conv_integer(const KernelRequest& request);
std::unique_ptr<Kernel> make_quantized_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_quantized_conv(const KernelRequest& request);
/// Of kernels/integer_items.h.
std::unique_ptr<Kernel> make_requantize(const KernelRequest& request);

/// Of kernels/recurrent_items.h.
std::unique_ptr<Kernel> make_recurrent_cell(const KernelRequest& request);

// Windows that slide over images, and normalisations and resampling of images.
std::unique_ptr<Kernel> make_conv_transpose(const KernelRequest& request);
/// The same, of so many images at a time that their columns take no more bytes than that; one image
/// at least.
std::unique_ptr<Kernel> make_conv_transpose_within(const KernelRequest& request,
                                                   std::int64_t most_column_bytes);
std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request);
/// LpPool and GlobalLpPool.
std::unique_ptr<Kernel> make_lp_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_global_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_global_max_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_batch_normalization(const KernelRequest& request);
/// GroupNormalization and InstanceNormalization.
std::unique_ptr<Kernel> make_group_normalization(const KernelRequest& request);
std::unique_ptr<Kernel> make_lrn(const KernelRequest& request);
std::unique_ptr<Kernel> make_lp_normalization(const KernelRequest& request);
std::unique_ptr<Kernel> make_resize(const KernelRequest& request);
std::unique_ptr<Kernel> make_grid_sample(const KernelRequest& request);
std::unique_ptr<Kernel> make_affine_grid(const KernelRequest& request);
std::unique_ptr<Kernel> make_deform_conv(const KernelRequest& request);
std::unique_ptr<Kernel> make_roi_align(const KernelRequest& request);
std::unique_ptr<Kernel> make_max_roi_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_col2im(const KernelRequest& request);
std::unique_ptr<Kernel> make_max_unpool(const KernelRequest& request);

}  // namespace autopar::runtime::cuda
