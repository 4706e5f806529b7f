#include "runtime/kernels/quantized/byte_products_cuda.h"

#include "runtime/kernels/quantized/packed_bytes_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// The inputs beside the operands.
struct Places {
  std::size_t a_zero;
  std::size_t b_zero;
  std::size_t scale;
};

template <typename A, typename B, typename Out>
std::unique_ptr<Kernel> make(const KernelRequest& request, const Product& product,
                             const Places& places) {
  const ColumnTurns turns = turns_of(product.rows, product.columns);
  PackedProducts packed(request, product.rows, turns.columns, product.depth);
  if (!packed.are_served()) return nullptr;
  const std::int64_t scratch_bytes = packed.scratch_bytes();
  const std::int64_t a_zero_stride = stride_of(request, places.a_zero);
  const std::int64_t b_zero_stride = stride_of(request, places.b_zero);
  constexpr bool is_scaled = std::is_same_v<Out, float>;
  const std::int64_t scale_stride = is_scaled ? stride_of(request, places.scale) : 0;
  auto run = [=, packed = std::move(packed)](const KernelIo& io) {
    const cudaStream_t stream = stream_of(io);
    const PackTarget rows = packed.rows(io.scratch);
    const PackTarget columns = packed.columns(io.scratch);
    pack(Vectors<A>{io.inputs[0].as<const A>(), product.rows, product.depth, product.a.row_stride,
                    product.a.column_stride},
         rows, stream);
    ByteResults<A, B, Out> results{
        .padded_columns = packed.padded_columns(),
        .row_sums = rows.sums,
        .column_sums = columns.sums,
        .row_zeros = {optional_data<const A>(io.inputs, places.a_zero), a_zero_stride},
        .column_zeros = {optional_data<const B>(io.inputs, places.b_zero), b_zero_stride},
        .scales = is_scaled ? io.inputs[places.scale].template as<const float>() : nullptr,
        .scale_column_stride = scale_stride,
        .out = io.outputs[0].as<Out>(),
        .row_stride = product.out.row_stride,
        .depth = static_cast<std::uint32_t>(product.depth),
        .elements = static_cast<std::uint32_t>(product.rows * turns.columns),
        .columns = FastDivisor(turns.columns),
        .places = FastDivisor(product.columns)};
    for (std::int64_t turn = 0; turn < turns.count; ++turn) {
      const std::int64_t first = turns.first(turn);
      pack(Vectors<B>{io.inputs[1].as<const B>() + first * product.b.column_stride, turns.columns,
                      product.depth, product.b.column_stride, product.b.row_stride},
           columns, stream);
      results.first_column = static_cast<std::uint32_t>(first);
      results.products = packed.multiply(io.scratch, stream);
      launch(stream, a_thread_each(results.elements), finish_products<A, B, Out>, results);
    }
  };
  return make_kernel(std::move(run), scratch_bytes);
}

/// Fewer rows are a decoder's step, which reads the weights where they lie.
bool serves(const KernelRequest& request, const Product& product, const Places& places) {
  constexpr std::int64_t least_rows = 32;
  constexpr std::int64_t least_depth = 64;
  return product.batches.empty() && product.rows >= least_rows && product.depth >= least_depth &&
         product.out.column_stride == 1 &&
         can_be_counted(product.rows, product.columns, product.depth) &&
         is_one_or(request, places.a_zero, product.rows) &&
         is_one_or(request, places.b_zero, product.columns);
}

}  // namespace

std::unique_ptr<Kernel> make_byte_product(const KernelRequest& request) {
  const bool is_scaled = request.outputs.at(0).type == DataType::float32;
  const Places places = is_scaled ? Places{.a_zero = 3, .b_zero = 4, .scale = 2}
                                  : Places{.a_zero = 2, .b_zero = 3, .scale = 0};
  const Product product = byte_product(request);
  if (request.outputs[0].elements() == 0 || !serves(request, product, places)) return nullptr;
  return kernel_for_bytes(request, [&]<typename A, typename B>(A, B) {
    return is_scaled ? make<A, B, float>(request, product, places)
                     : make<A, B, std::int32_t>(request, product, places);
  });
}

}  // namespace autopar::runtime::cuda
