"""Between NumPy's arrays and tensors, which cross as bytes with a type and a shape."""

import numpy

from . import _native

# By the library's names: ONNX Runtime's, and NumPy's or those of the package ml_dtypes.
_TYPES = {
    "float32": ("float", "float32"),
    "float64": ("double", "float64"),
    "bfloat16": ("bfloat16", "bfloat16"),
    "float8e4m3fn": ("float8e4m3fn", "float8_e4m3fn"),
    "float8e4m3fnuz": ("float8e4m3fnuz", "float8_e4m3fnuz"),
    "float8e5m2": ("float8e5m2", "float8_e5m2"),
    "float8e5m2fnuz": ("float8e5m2fnuz", "float8_e5m2fnuz"),
    "float8e8m0": ("float8e8m0", "float8_e8m0fnu"),
}
_SAME_NAMES = ("float16", "bool", "complex64", "complex128",
               *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))  # fmt: skip
_TYPES |= {name: (name, name) for name in _SAME_NAMES}
_TYPE_OF_NUMPY = {numpys: name for name, (_, numpys) in _TYPES.items()}


def onnx_runtime_type(name):
    """`tensor(float)`."""
    return f"tensor({_TYPES.get(name, (name,))[0]})"


def dtype_of(name, what):
    """NumPy's type; `what` has it, for the error where NumPy has none."""
    numpys = _TYPES.get(name, (None, None))[1]
    if numpys is None:
        raise _native.Error(f"{what} is {name}, which no array of NumPy has")
    if numpys in numpy.sctypeDict:
        return numpy.dtype(numpys)
    try:
        import ml_dtypes
    except ImportError:
        raise _native.Error(f"{what} is {name}, which NumPy has with a package: "
                            "pip install ml_dtypes") from None  # fmt: skip
    return numpy.dtype(getattr(ml_dtypes, numpys))


def to_tensor(name, value):
    """An input for the library: its name, type, shape and bytes. Arrays that are contiguous are not
    copied."""
    array = numpy.asarray(value)
    type_name = _TYPE_OF_NUMPY.get(array.dtype.name)
    if type_name is None:
        raise _native.Error(f"input '{name}': a tensor cannot have NumPy's type {array.dtype}")
    if not array.dtype.isnative:
        raise _native.Error(f"input '{name}' has the bytes of its numbers in another order than "
                            f"this machine: give .astype('{array.dtype.name}') of it")  # fmt: skip
    array = numpy.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"])
    return name, type_name, list(array.shape), array.reshape(-1).view(numpy.uint8)


def to_array(dtype, shape, data):
    """Of an output; the memory is the array's."""
    return data.view(dtype).reshape(shape)
