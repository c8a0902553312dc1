#include "cli/command_line.h"

int main(int argc, char** argv) { return autocfg::cli::Main(argc, argv); }
