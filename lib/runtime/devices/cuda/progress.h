#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "runtime/devices/cuda/cuda_error.h"

namespace autopar::runtime::cuda {

/// How far a run's collectives have come. The device writes it into memory of the host while the
/// run is under way.
class Progress {
 public:
  struct Marks {
    unsigned started = 0;   ///< the number of the last collective that the device began
    unsigned finished = 0;  ///< and of the last one that it completed
    bool in_collective() const { return started != finished; }
    friend bool operator==(const Marks&, const Marks&) = default;
  };

  Progress();
  /// Before a run, when no work of the last one is left.
  void reset();
  /// Joins the stream, before and after the collective. Numbers count from 1 in a run.
  void mark_start(cudaStream_t stream, unsigned number) const;
  void mark_end(cudaStream_t stream, unsigned number) const;
  Marks read() const;

 private:
  struct Release {
    void operator()(Marks* marks) const { cudaFreeHost(marks); }
  };
  std::unique_ptr<Marks, Release> host_;
  Marks* device_ = nullptr;
};

}  // namespace autopar::runtime::cuda
