// FourierRows by fast Fourier transforms: Stockham's, which needs no reordering, of any radices
// (Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992, section 1.7), in
// double. A prime factor of the length costs as many products as it is large, for each element:
// lengths with large ones are left to loops, which all threads share.

#include <omp.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/simd_clones.h"
#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/fourier/fourier_form.h"
#include "runtime/kernels/fourier/kernels.h"

namespace autopar::runtime::cpu {
namespace {

/// Complex numbers, the real parts apart from the imaginary ones.
struct Signal {
  double* real;
  double* imaginary;
};

/// Four before two: fewer passes.
std::vector<std::int64_t> factors_of(std::int64_t length) {
  std::vector<std::int64_t> factors;
  while (length % 4 == 0) {
    factors.push_back(4);
    length /= 4;
  }
  for (std::int64_t factor = 2; factor * factor <= length; ++factor)
    for (; length % factor == 0; length /= factor) factors.push_back(factor);
  if (length > 1) factors.push_back(length);
  return factors;
}

/// to[i] (+)= factor * from[i] for n numbers; `is_first` where `to` has nothing yet.
AUTOPAR_SIMD_CLONES void add_product(const Signal& from, double real, double imaginary,
                                     std::int64_t n, bool is_first, const Signal& to) {
  if (is_first)
    for (std::int64_t i = 0; i < n; ++i) {
      to.real[i] = from.real[i] * real - from.imaginary[i] * imaginary;
      to.imaginary[i] = from.real[i] * imaginary + from.imaginary[i] * real;
    }
  else
    for (std::int64_t i = 0; i < n; ++i) {
      to.real[i] += from.real[i] * real - from.imaginary[i] * imaginary;
      to.imaginary[i] += from.real[i] * imaginary + from.imaginary[i] * real;
    }
}

/// A pass over what is left of the length, `radix` parts of it at a time, each of runs of `run`
/// numbers.
void pass(const FourierForm& of, const double* circle, std::int64_t radix, std::int64_t left,
          std::int64_t run, const Signal& from, const Signal& to) {
  const std::int64_t parts = left / radix;
  const double direction = of.is_inverse ? 1 : -1;
  const auto at = [](const Signal& signal, std::int64_t place) {
    return Signal{signal.real + place, signal.imaginary + place};
  };
  for (std::int64_t part = 0; part < parts; ++part)
    for (std::int64_t bin = 0; bin < radix; ++bin)
      for (std::int64_t t = 0; t < radix; ++t) {
        // The angle within the radix, and the part's own.
        const std::int64_t angle =
            (bin * t % radix * (of.length / radix) + part * bin % left * (of.length / left)) %
            of.length;
        add_product(at(from, run * (part + parts * t)), circle[2 * angle],
                    direction * circle[2 * angle + 1], run, t == 0,
                    at(to, run * (radix * part + bin)));
      }
}

class FastFourierRows final : public Kernel {
 public:
  FastFourierRows(const KernelRequest& request, const FourierForm& form,
                  std::vector<std::int64_t> factors)
      : of_(form),
        factors_(std::move(factors)),
        threads_(static_cast<int>(
            std::min<std::int64_t>(request.device.threads(), request.outputs[0].shape[0]))) {}

  std::int64_t scratch_bytes() const override { return threads_ * signal_bytes(); }

  void run(const KernelIo& io) override {
    visit_type(io.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
      const std::int64_t rows = io.outputs[0].shape[0];
      for_in_threads(threads_, rows, [&](std::int64_t row) {
        transform_row(io.inputs[0].as<const T>() + row * of_.samples * of_.in_parts,
                      io.inputs[1].as<const double>(),
                      reinterpret_cast<double*>(io.scratch + omp_get_thread_num() * signal_bytes()),
                      io.outputs[0].as<T>() + row * of_.bins * of_.out_parts);
      });
    });
  }

 private:
  /// What a thread works in: two signals.
  std::int64_t signal_bytes() const { return graph::aligned(4 * of_.length * 8); }

  template <typename T>
  void transform_row(const T* in, const double* circle, double* memory, T* out) const {
    Signal from{memory, memory + of_.length};
    Signal to{memory + 2 * of_.length, memory + 3 * of_.length};
    read_row(in, from);
    std::int64_t run = 1;
    for (const std::int64_t radix : factors_) {
      pass(of_, circle, radix, of_.length / run, run, from, to);
      std::swap(from, to);
      run *= radix;
    }
    const double scale = of_.is_inverse ? 1.0 / static_cast<double>(of_.length) : 1.0;
    for (std::int64_t bin = 0; bin < of_.bins; ++bin) {
      out[bin * of_.out_parts] = narrowed<T>(from.real[bin] * scale);
      if (of_.out_parts == 2) out[bin * 2 + 1] = narrowed<T>(from.imaginary[bin] * scale);
    }
  }

  /// With zeros behind the samples. In half a spectrum all numbers but the ends stand for two.
  template <typename T>
  void read_row(const T* in, const Signal& to) const {
    const bool is_half = of_.reads_half();
    for (std::int64_t n = 0; n < of_.length; ++n) {
      const bool is_given = n < of_.samples;
      const double times = is_half && n != 0 && 2 * n != of_.length ? 2 : 1;
      to.real[n] = is_given ? static_cast<double>(widened(in[n * of_.in_parts])) * times : 0;
      to.imaginary[n] =
          is_given && of_.in_parts == 2 ? static_cast<double>(widened(in[n * 2 + 1])) * times : 0;
    }
  }

  FourierForm of_;
  std::vector<std::int64_t> factors_;
  int threads_;  ///< no more than rows
};

}  // namespace

std::unique_ptr<Kernel> make_fast_fourier_rows(const KernelRequest& request) {
  constexpr std::int64_t longest = 1 << 24;  // beyond it signals would take too much memory
  constexpr std::int64_t largest_factor = 64;
  const FourierForm form = fourier_form(request);
  std::vector<std::int64_t> factors = factors_of(form.length);
  const bool is_fast =
      std::ranges::all_of(factors, [](std::int64_t factor) { return factor <= largest_factor; });
  if (form.length > longest || !is_fast || request.outputs[0].elements() == 0) return nullptr;
  return std::make_unique<FastFourierRows>(request, form, std::move(factors));
}

}  // namespace autopar::runtime::cpu
