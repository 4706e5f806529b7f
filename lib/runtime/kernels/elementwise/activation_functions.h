#pragma once

#include "runtime/kernels/elementwise/functions.h"

/// Activations, as functions.h tells. NaN stays NaN but where the definition says 0 of all that is
/// not beyond a threshold.
namespace autopar::runtime::functions {

struct Relu {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return x < 0 ? decltype(x)(0) : x; }
};
struct LeakyRelu {
  Parameters p;
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return x < 0 ? decltype(x)(p.a) * x : x; }
};
struct PRelu {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x, T slope) const {
    return x < T(0) ? Mul{}(slope, x) : x;
  }
};
struct ThresholdedRelu {
  Parameters p;
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return x > static_cast<T>(p.a) ? x : T(0);
  }
};
/// b is lambd, a the bias.
struct Shrink {
  Parameters p;
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    const T bias = static_cast<T>(p.a);
    const T lambd = static_cast<T>(p.b);
    return x < -lambd ? x + bias : (x > lambd ? x - bias : T(0));
  }
};
struct Elu {
  Parameters p;
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return x < T(0) ? static_cast<T>(p.a) * (math::exp(x) - T(1)) : x;
  }
};
struct Celu {
  Parameters p;
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    const T alpha = static_cast<T>(p.a);
    const T curved = alpha * (math::exp(x / alpha) - T(1));
    return x < T(0) || curved != curved ? curved : x;  // 0 and infinity times nothing are NaN
  }
};
/// a is alpha, b gamma.
struct Selu {
  Parameters p;
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return static_cast<T>(p.b) * (x <= T(0) ? static_cast<T>(p.a) * (math::exp(x) - T(1)) : x);
  }
};
struct Gelu {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return T(0.5) * x * (T(1) + math::erf(x * T(0.70710678118654752440)));
  }
};
struct GeluTanh {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
    return T(0.5) * x * (T(1) + math::tanh(inner));
  }
};
struct Sigmoid {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::sigmoid(x); }
};
/// x sigmoid(alpha x); a is alpha.
struct Swish {
  Parameters p;
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const {
    return x * math::sigmoid(decltype(x)(p.a) * x);
  }
};
/// a is alpha, b beta.
struct HardSigmoid {
  Parameters p;
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return Max{}(T(0), Min{}(T(1), static_cast<T>(p.a) * x + static_cast<T>(p.b)));
  }
};
struct HardSwish {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return x * Max{}(T(0), Min{}(T(1), x * T(1.0 / 6) + T(0.5)));
  }
};
struct Softplus {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::softplus(x); }
};
struct Softsign {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return x / (1 + std::fabs(x)); }
};
struct Mish {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return x * math::tanh(math::softplus(x)); }
};

}  // namespace autopar::runtime::functions
