/// What plugin_test.cpp loads.
extern "C" int autopar_count_calls() {
  static int calls = 0;
  return ++calls;
}
