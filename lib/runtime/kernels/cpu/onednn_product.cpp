#include "runtime/kernels/cpu/onednn_product.h"

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

}  // namespace autopar::runtime::cpu
