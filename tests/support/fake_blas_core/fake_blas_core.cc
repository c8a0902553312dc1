// A program that preloads this library believes that OpenBLAS does not know the CPU's model.
extern "C" __attribute__((visibility("default"))) char* openblas_get_corename() {
  static char name[] = "Prescott";
  return name;
}
