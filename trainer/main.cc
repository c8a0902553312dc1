#include "trainer/program/blas_restart.h"
#include "trainer/program/trainer_main.h"

int main(int argc, char** argv) {
  autocfg::trainer::RestartForBlas(argv);
  return autocfg::trainer::TrainerMain(argc, argv);
}
