#include "cli/verbs/verbs.h"

int main(int argc, char** argv) { return autocfg::cli::Main(argc, argv); }
