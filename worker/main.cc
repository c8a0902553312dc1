#include "worker/program/program.h"

int main(int argc, char** argv) { return autocfg::worker::WorkerMain(argc, argv); }
