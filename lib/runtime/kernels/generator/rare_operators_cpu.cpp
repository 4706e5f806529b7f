#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/items_kernel.h"
#include "runtime/kernels/fourier/fourier_items.h"
#include "runtime/kernels/generator/random_items.h"
#include "runtime/kernels/movement/reverse_sequence_items.h"
#include "runtime/kernels/product/determinant_items.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_determinant(const KernelRequest& request) {
  return make_determinant_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_fourier_rows(const KernelRequest& request) {
  return make_fourier_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_random_uniform(const KernelRequest& request) {
  return make_random_items<ItemsDevice, false>(request);
}
std::unique_ptr<Kernel> make_random_normal(const KernelRequest& request) {
  return make_random_items<ItemsDevice, true>(request);
}
std::unique_ptr<Kernel> make_bernoulli(const KernelRequest& request) {
  return make_bernoulli_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_multinomial(const KernelRequest& request) {
  return make_multinomial_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_reverse_sequence(const KernelRequest& request) {
  return make_reverse_sequence_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cpu
