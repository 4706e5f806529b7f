#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/kernels/convolution/direct_convolution.h"
#include "runtime/kernels/quantized/byte_tile.h"

/// What convolutions of bytes read: copies of images whose channels are last, and whose padding is
/// the zero point.
namespace autopar::runtime::cpu {

/// Where ConvInteger and QuantizedConv have what is optional.
struct ByteConvInputs {
  std::size_t zero;
  std::optional<std::size_t> scale;  ///< without one, the result is the sums in int32
  std::optional<std::size_t> bias;
};
inline constexpr ByteConvInputs inputs_of_conv_integer{.zero = 2, .scale = {}, .bias = {}};
inline constexpr ByteConvInputs inputs_of_quantized_conv{.zero = 3, .scale = 2, .bias = 4};

/// Bytes as they are given, and as windows see them.
struct ByteImages {
  const std::uint8_t* in;  ///< [image, channel, row, column]
  std::uint8_t moved;      ///< makes signed bytes unsigned by exclusive or
  std::uint8_t zero;       ///< of unsigned ones
  std::byte* padded;       ///< [image, row, column, channel], numbers of a form
};

/// `zero` is the zero point's place among the inputs.
ByteImages byte_images(const KernelIo& io, std::size_t zero, std::byte* padded);

/// Bytes of all padded images, and of a word that reaches beyond the last one.
std::int64_t padded_bytes(const DirectConvolution& of, ByteForm form);

/// Writes row `y` of all padded images' rows.
void write_padded_row(const DirectConvolution& of, const ByteImages& images, ByteForm form,
                      std::int64_t y);

}  // namespace autopar::runtime::cpu
