#!/usr/bin/env bash
# Builds ONNX's C++ library from its source package on the Python registry, against the system's
# protobuf. Usage: build_onnx.sh VERSION PREFIX. The prefix appears whole or not at all.
set -euo pipefail
version=$1 prefix=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet cmake  # newer than some distributions have
"$work/venv/bin/pip" download --quiet --no-deps --no-binary onnx --dest "$work" "onnx==$version"
tar -xf "$work/onnx-$version.tar.gz" -C "$work"

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake=$work/venv/bin/cmake
"$cmake" -G Ninja -S "$work/onnx-$version" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_INSTALL_PREFIX="$work/prefix" -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
  -DONNX_BUILD_PYTHON=OFF -DONNX_ML=ON -DONNX_USE_PROTOBUF_SHARED_LIBS=ON \
  "${launcher[@]}" >"$work/log" 2>&1 || { tail -30 "$work/log" >&2; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 || { tail -30 "$work/log" >&2; exit 1; }
"$cmake" --install "$work/build" >"$work/log" 2>&1
install -D -m 644 "$work/onnx-$version/LICENSE" "$work/prefix/share/doc/onnx/LICENSE"

mkdir -p "$(dirname "$prefix")"
rm -rf "$prefix.partial"
cp -r "$work/prefix" "$prefix.partial"
mv "$prefix.partial" "$prefix"
