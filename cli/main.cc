#include "cli/verbs/verbs.h"

int main(int argc, char** argv) { return autocfg::Main(argc, argv); }
