#include "trainer/program/trainer_main.h"

int main(int argc, char** argv) { return autocfg::trainer::TrainerMain(argc, argv); }
