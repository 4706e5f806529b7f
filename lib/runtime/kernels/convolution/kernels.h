#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {
namespace cpu {
/// A Conv of float32 images whose channels are last.
MakeKernel make_channels_last_conv;
Serves serves_channels_last_conv;

/// The same by a kernel of our own, which alone takes an addend and Relu along. It wants constant
/// weights.
MakeKernel make_direct_conv;
Serves serves_direct_conv;
/// The same of 3 by 3 taps by fewer products, which take 16 numbers for 9 weights.
MakeKernel make_winograd_conv;
Serves serves_winograd_conv;
/// The same where each group is a channel and makes one.
MakeKernel make_depthwise_conv;
Serves serves_depthwise_conv;

/// Whether a convolution has so few products that oneDNN's would hardly be faster, which is not
/// worth the code that oneDNN makes for it at run time. How many images there are makes no
/// difference, so that an image has the same result whatever others are with it.
Serves is_small_conv;
/// Such a Conv of images as ONNX has them.
MakeKernel make_small_conv;
bool serves_small_conv(const KernelRequest& request);

/// The maximum over all places of such a convolution by windows of one place.
MakeKernel make_conv_maximum;
Serves serves_conv_maximum;

/// A Conv of series of float32 as ONNX has them, whose groups are a channel each, in steps of 1.
MakeKernel make_depthwise_series;
bool serves_depthwise_series(const KernelRequest& request);
}  // namespace cpu

namespace AUTOPAR_DEVICE {

MakeKernel make_conv, make_conv_transpose;
/// ConvTranspose by its definition.
MakeKernel make_conv_transpose_loops;
MakeKernel make_col2im, make_max_unpool;

}  // namespace AUTOPAR_DEVICE

namespace cuda {
/// Conv and ConvTranspose of so many images at a time that their windows or columns, in scratch
/// memory, take no more bytes than that; one image at least.
std::unique_ptr<Kernel> make_conv_within(const KernelRequest& request,
                                         std::int64_t most_window_bytes);
std::unique_ptr<Kernel> make_conv_transpose_within(const KernelRequest& request,
                                                   std::int64_t most_column_bytes);
}  // namespace cuda
}  // namespace autopar::runtime
