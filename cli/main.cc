#include "base/os/streams/standard_streams.h"
#include "cli/command_line.h"

AUTOCFG_FILL_STANDARD_DESCRIPTORS_AT_START;

int main(int argc, char** argv) { return autocfg::cli::Main(argc, argv); }
