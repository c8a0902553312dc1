// Program entry: selects the verb (cli/verbs/verbs.h) and reports every invalid command line as one error
// line.
#pragma once

namespace autocfg::cli {

// Runs the whole program: parses the command line, runs the verb and reports errors. Returns the exit code.
int Main(int argc, char** argv);

}  // namespace autocfg::cli
