#pragma once

#include <string>

namespace autopar::runtime {

/// The address of a symbol of a plugin; see plugin_function.
void* plugin_symbol(const std::string& plugin, const char* symbol);

/// A function that a plugin exports as extern "C". A plugin is a part of autopar in a shared
/// library of its own, libautopar_NAME.so, so that what it links (MPI, CUDA) need not be on
/// machines that do without. It is looked for in $AUTOPAR_PLUGIN_DIR, else in the folder autopar
/// beside libautopar_runtime.so, in a plugin's own folder where that asks for another, or, of a
/// program that has this code within, in ../lib/autopar beside its folder; it is loaded when first
/// asked for and stays. Throws Error naming the library and what is missing, and for one of another
/// version. From several threads at once if need be.
template <typename Function>
Function* plugin_function(const std::string& plugin, const char* symbol) {
  return reinterpret_cast<Function*>(plugin_symbol(plugin, symbol));
}

}  // namespace autopar::runtime
