#include "base/os/streams/standard_streams.h"
#include "worker/program/program.h"

AUTOCFG_FILL_STANDARD_DESCRIPTORS_AT_START;

int main(int argc, char** argv) { return autocfg::worker::WorkerMain(argc, argv); }
