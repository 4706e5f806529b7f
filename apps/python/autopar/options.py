"""From arguments of Python to the options of the library."""

from . import _native


def given(arguments, *names):
    """Those of the arguments that were given: None is the program's default."""
    return {name: arguments[name] for name in names if arguments[name] is not None}


def fill(options, values):
    """Sets fields of an options struct of the library, and returns it."""
    for name, value in values.items():
        try:
            setattr(options, name, value)
        except (TypeError, RuntimeError) as error:  # as nanobind tells of another type
            raise TypeError(f"{name}={value!r}: a {type(value).__name__} cannot be it") from error
    return options


def texts(values):
    """A list of what is one or several: texts, paths or numbers."""
    if isinstance(values, (list, tuple)):
        return [str(value) for value in values]
    return [str(values)]


def pairs(values):
    """`NAME=VALUE` texts of a dict; a list of such texts, or one, is as it is."""
    if isinstance(values, dict):
        return [f"{name}={value}" for name, value in values.items()]
    return texts(values)


def _extent(value):
    """A shape, "1x128", or a number of one dimension."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def shape_texts(shapes):
    """`--shape` texts: a tuple is a shape, a list has a value for each profile."""
    if not isinstance(shapes, dict):
        return texts(shapes)
    for name, value in shapes.items():
        if isinstance(value, tuple) and not value:
            raise _native.Error(f"shapes: '{name}' is a scalar, whose shape is known; leave it out")
    return [f"{name}={','.join(map(_extent, value if isinstance(value, list) else [value]))}"
            for name, value in shapes.items()]  # fmt: skip
