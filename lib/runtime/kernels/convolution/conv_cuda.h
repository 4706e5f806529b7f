#pragma once

#include <algorithm>

#include "graph/arena.h"
#include "runtime/kernels/product/device_product_cuda.h"

namespace autopar::runtime::cuda {

/// Conv and ConvTranspose of so many images at a time that their windows or columns, in scratch
/// memory, take no more bytes than that; one image at least.
std::unique_ptr<Kernel> make_conv_within(const KernelRequest& request,
                                         std::int64_t most_window_bytes);
std::unique_ptr<Kernel> make_conv_transpose_within(const KernelRequest& request,
                                                   std::int64_t most_column_bytes);

/// Products of images, some at a time.
class ImageProducts {
 public:
  /// `piece` images at a time, for which `make(images)` makes a product.
  template <typename Make>
  ImageProducts(std::int64_t images, std::int64_t piece, Make make)
      : images_(images), piece_(piece), whole_(make(piece)) {
    if (images % piece != 0) last_ = make(images % piece);
  }

  std::int64_t scratch_bytes() const {
    return std::max(whole_->scratch_bytes(), last_ ? last_->scratch_bytes() : std::int64_t{0});
  }

  /// Calls `run(product, first image, images)` for each piece.
  template <typename Run>
  void run(Run run) const {
    for (std::int64_t image = 0; image < images_; image += piece_) {
      const std::int64_t images = std::min(piece_, images_ - image);
      run(images == piece_ ? *whole_ : *last_, image, images);
    }
  }

 private:
  std::int64_t images_;
  std::int64_t piece_;
  std::unique_ptr<DeviceProduct> whole_;
  std::unique_ptr<DeviceProduct> last_;  ///< for the images that are left
};

/// How many images take `most_bytes` at most; one at least.
inline std::int64_t images_at_a_time(std::int64_t images, std::int64_t image_bytes,
                                     std::int64_t most_bytes) {
  return std::clamp<std::int64_t>(most_bytes / std::max<std::int64_t>(image_bytes, 1), 1, images);
}

}  // namespace autopar::runtime::cuda
