#include "runtime/kernels/product/onednn_product.h"

#include "runtime/kernels/cpu/onednn.h"

namespace autopar::runtime::cpu {

using dnnl::memory;

memory::desc matrices(const Product& product, const MatrixLayout& layout, std::int64_t rows,
                      std::int64_t columns, memory::data_type type) {
  memory::dims dims = product.batches;
  memory::dims strides = layout.batch_strides;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (strides[d] != 0) continue;
    dims[d] = 1;
    strides[d] = rows * columns;
  }
  dims.insert(dims.end(), {rows, columns});
  // A single column's stride means nothing here, but oneDNN takes it for a leading dimension.
  strides.insert(strides.end(), {layout.row_stride, columns == 1 ? 1 : layout.column_stride});
  return {dims, type, strides};
}

bool adds_bytes_exactly() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [&](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni);
}

memory::data_type byte_type(DataType type) {
  return type == DataType::int8 ? memory::data_type::s8 : memory::data_type::u8;
}

std::int32_t byte_shift(DataType type) { return type == DataType::uint8 ? 128 : 0; }

void move_down(const std::byte* from, std::int8_t* to, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i)
    to[i] = static_cast<std::int8_t>(std::to_integer<int>(from[i]) - 128);
}

std::int32_t zero_point(const TensorView& view) {
  return view.type == DataType::int8 ? std::int32_t{*view.as<const std::int8_t>()}
                                     : std::int32_t{*view.as<const std::uint8_t>()};
}

namespace {

std::shared_ptr<std::byte> moved_bytes(Device& device, const TensorView& weights,
                                       const memory::desc& from, const memory::desc& to) {
  if (byte_shift(weights.type) == 0) return reordered_copy(device, from, weights.data, to);
  auto moved = device.allocate(weights.elements());
  move_down(weights.data, reinterpret_cast<std::int8_t*>(moved.get()), weights.elements());
  auto copy = reordered_copy(device, from, moved.get(), to);
  return copy ? copy : moved;
}

}  // namespace

std::shared_ptr<std::byte> kept_bytes(const KernelRequest& request, const memory::desc& from,
                                      const memory::desc& to) {
  const TensorView& weights = request.inputs[1];
  return request.kept(1, "moved " + form_of(from, to), static_cast<std::int64_t>(to.get_size()),
                      [&] { return moved_bytes(request.device, weights, from, to); });
}

}  // namespace autopar::runtime::cpu
