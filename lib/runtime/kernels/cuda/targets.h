#pragma once

#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/cuda/words.h"
#include "runtime/kernels/movement/indexing.h"

/// Which place of the data each index names: what gathers read from and scatters write to. Places
/// are counted in rows: elements, slices, or rows behind an axis. Each kind is called on the device
/// with the index's number and returns -1, having reported it, where the index is out of range.
namespace autopar::runtime::cuda {

/// int32 or int64 where they lie.
struct Indices {
  const void* data = nullptr;
  bool is_int32 = false;

  __device__ std::int64_t at(std::int64_t i) const {
    return is_int32 ? static_cast<const std::int32_t*>(data)[i]
                    : static_cast<const std::int64_t*>(data)[i];
  }
};

inline Indices indices_of(const TensorView& view) {
  return {view.data, view.type == DataType::int32};
}

__device__ inline std::int64_t checked_index(std::int64_t index, std::int64_t extent,
                                             const FaultSlot& fault) {
  if (index < -extent || index >= extent) {
    fault.report(index, extent);
    return -1;
  }
  return index < 0 ? index + extent : index;
}

/// Gather: the indices once more for each outer block.
class RowTargets {
 public:
  RowTargets(const KernelRequest& request, const AxisExtents& extents);
  void set(const TensorView& indices) { values_ = indices_of(indices); }

  __device__ std::int64_t operator()(std::uint32_t i) const {
    const std::int64_t index = checked_index(values_.at(indices_.divide(i)), extent_, fault_);
    return index < 0 ? -1 : i * extent_ + index;
  }

 private:
  Indices values_;
  FastDivisor indices_;
  std::int64_t extent_;
  FaultSlot fault_;
};

/// GatherElements and ScatterElements.
class ElementTargets {
 public:
  explicit ElementTargets(const KernelRequest& request);
  void set(const TensorView& indices) { values_ = indices_of(indices); }

  __device__ std::int64_t operator()(std::uint32_t i) const {
    const std::int64_t index = checked_index(values_.at(i), extent_, fault_);
    return index < 0 ? -1 : offsets_of(places_, i).in + index * stride_;
  }

 private:
  Indices values_;
  WordLayout places_;  ///< of the indices, `in` the data with no step along the axis
  std::int64_t extent_ = 0;
  std::int64_t stride_ = 0;
  FaultSlot fault_;
};

/// GatherND and ScatterND.
class SliceTargets {
 public:
  explicit SliceTargets(const KernelRequest& request);
  void set(const TensorView& indices) { values_ = indices.as<const std::int64_t>(); }

  __device__ std::int64_t operator()(std::uint32_t i) const {
    const std::int64_t* index = values_ + std::int64_t{i} * depth_;
    std::int64_t slice = 0;
    for (int d = 0; d < depth_; ++d) {
      const std::int64_t checked = checked_index(index[d], extents_[d], fault_);
      if (checked < 0) return -1;
      slice = slice * extents_[d] + checked;
    }
    return indices_.quotient(i) * slices_ + slice;
  }

 private:
  static constexpr int max_depth = 8;

  const std::int64_t* values_ = nullptr;
  int depth_ = 0;
  std::int64_t extents_[max_depth] = {};
  FastDivisor indices_;  ///< in each batch
  std::int64_t slices_ = 0;
  FaultSlot fault_;
};

}  // namespace autopar::runtime::cuda
