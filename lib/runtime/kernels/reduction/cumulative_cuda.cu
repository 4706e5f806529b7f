// CumSum and CumProd: a block a row, a part after the other.

#include "runtime/kernels/cuda/block_scan.h"
#include "runtime/kernels/cuda/words.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::cuda {
namespace {

constexpr unsigned scan_threads = 256;

template <typename T, typename Operation>
__global__ void __launch_bounds__(scan_threads)
    scan_rows(const T* in, T* out, const __grid_constant__ CumSumArguments of,
              Accumulator<T> start) {
  using Wide = Accumulator<T>;
  __shared__ BlockScan<Wide> part_scan;
  const AxisExtents& rows = of.extents;
  const std::int64_t stride = of.reverse ? -rows.inner : rows.inner;
  const std::int64_t first =
      rows.row_offset(blockIdx.x) + (of.reverse ? (rows.extent - 1) * rows.inner : 0);
  Wide carried = start;
  for (std::int64_t part = 0; part < rows.extent; part += scan_threads) {
    const std::int64_t step = part + threadIdx.x;
    const std::int64_t at = first + step * stride;
    const Wide x = step < rows.extent ? accumulated(in[at]) : start;
    const Wide result = Operation{}(carried, part_scan.scan(x, start, of.exclusive, Operation{}));
    if (step < rows.extent) out[at] = narrowed<T>(result);
    carried = Operation{}(carried, part_scan.total(start, Operation{}));
    __syncthreads();
  }
}

template <typename T, typename Operation>
class Cumulative final : public Kernel {
 public:
  Cumulative(const CumSumArguments& of, int start)
      : of_(of), start_(static_cast<Accumulator<T>>(start)) {}

  void run(const KernelIo& io) override {
    if (io.inputs[0].elements() == 0) return;
    launch(stream_of(io), {dim3(static_cast<unsigned>(of_.extents.rows())), dim3(scan_threads)},
           scan_rows<T, Operation>, io.inputs[0].as<const T>(), io.outputs[0].as<T>(), of_, start_);
  }

 private:
  CumSumArguments of_;
  Accumulator<T> start_;
};

template <typename Operation>
std::unique_ptr<Kernel> make_cumulative(const KernelRequest& request, int start) {
  const CumSumArguments of = cumsum_arguments(request);
  if (of.extents.inner >= warp_lanes) return nullptr;
  checked_count(request, request.inputs[0].elements());
  return kernel_for_type(
      request, stored_type(request.inputs[0].type), AllNumbers{},
      [&]<typename T>(T) { return std::make_unique<Cumulative<T, Operation>>(of, start); });
}

}  // namespace

std::unique_ptr<Kernel> make_cumsum_by_blocks(const KernelRequest& request) {
  return make_cumulative<functions::Add>(request, 0);
}

std::unique_ptr<Kernel> make_cumprod_by_blocks(const KernelRequest& request) {
  return make_cumulative<functions::Mul>(request, 1);
}

}  // namespace autopar::runtime::cuda
