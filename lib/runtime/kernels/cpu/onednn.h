#pragma once

#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/out_of_memory.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/onednn_versions.h"
#include "runtime/kernels/cpu/strided_copy.h"

/// What kernels that oneDNN computes have in common.
namespace autopar::runtime::cpu {

const dnnl::engine& onednn_engine();

/// A contiguous tensor of float32.
dnnl::memory::desc float_layout(const Shape& shape);

/// The same of images that are stored with their channels last; `shape` has them second.
dnnl::memory::desc channels_last_layout(const Shape& shape);

/// Scratchpads are the kernel's scratch memory.
dnnl::primitive_attr user_scratchpad();

/// Lives while oneDNN describes or makes a primitive. It excludes all others: what a convolution's
/// form is chosen by is in variables that all threads share, and one that is described beside
/// another may compute something else (seen in oneDNN 2.6: bytes beside float32). Throws
/// OutOfMemory where there is no room for its code, and Error ever after a call that got no memory:
/// oneDNN leaves the lock of its cache held then, for which the next call would wait for ever.
class OnednnScope {
 public:
  OnednnScope();

 private:
  FragileCall call_;
  std::unique_lock<std::mutex> lock_;
};

/// The exception that is caught where one comes out of oneDNN: OutOfMemory where memory was
/// refused.
[[noreturn]] void rethrow_of_onednn();

/// What make() returns, in a scope of its own.
template <typename Make>
auto within_onednn(const Make& make) -> decltype(make()) {
  const OnednnScope scope;
  try {
    return make();
  } catch (...) {
    rethrow_of_onednn();
  }
}

/// `arguments`: those of oneDNN's own description, but for the engine and the attributes.
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describe_primitive(const dnnl::primitive_attr& attributes,
                                                      const Arguments&... arguments) {
  return within_onednn(
      [&] { return onednn::describe<Primitive>(onednn_engine(), attributes, arguments...); });
}

/// A primitive on one thread's stream. Bind all of its arguments, then run it.
class OnednnPrimitive {
 public:
  /// An empty one, which must not run.
  OnednnPrimitive() = default;
  /// `arguments` (DNNL_ARG_...) are all but the scratchpad.
  OnednnPrimitive(const dnnl::primitive_desc_base& description, const std::vector<int>& arguments);

  /// One more, of a layout that the description does not know.
  void add(int argument, const dnnl::memory::desc& layout);

  /// A multiple of 64.
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  /// oneDNN takes what it only reads as mutable, too.
  void bind(int argument, const void* data);
  void run(std::byte* scratch);

 private:
  void make_argument(int argument, const dnnl::memory::desc& layout);

  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::int64_t scratch_bytes_ = 0;
};

/// A kernel of one primitive that makes output 0 of input 0, both of float32.
std::unique_ptr<Kernel> make_onednn_unary(const dnnl::primitive_desc_base& description);

/// A tensor's way from one layout into another; empty where they are the same. That of a small
/// tensor between layouts without blocks is a copy of our own, for which no code is made at run
/// time.
class Reordering {
 public:
  Reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  bool is_needed() const { return copy_ || primitive_; }
  /// Bytes of the tensor in its new layout, 0 where there is none; a multiple of 64.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t scratch_bytes() const { return primitive_ ? primitive_->scratch_bytes() : 0; }
  void run(const void* from, void* to, std::byte* scratch);

 private:
  std::optional<StridedCopy> copy_;
  std::optional<OnednnPrimitive> primitive_;
  std::int64_t bytes_ = 0;
};

/// Says what reordered_copy makes, as the name of a form (KernelRequest::kept). Dimensions of
/// extent 1 in front, as many as batches have, make no difference.
std::string form_of(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

/// Memory of the device with what lies at `data` in another layout; null where that is the same.
std::shared_ptr<std::byte> reordered_copy(Device& device, const dnnl::memory::desc& from,
                                          const void* data, const dnnl::memory::desc& to);

/// The same of a constant's matrix, which is read from its file part by part, so that it is not in
/// memory twice. `from`: how it lies, row by row or column by column. Null, too, where `to` cannot
/// be written in parts.
std::shared_ptr<std::byte> reordered_copy(Device& device, const dnnl::memory::desc& from,
                                          const graph::Tensor& matrix,
                                          const dnnl::memory::desc& to);

}  // namespace autopar::runtime::cpu
