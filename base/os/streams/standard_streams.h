// Standard input, output and error of a program whose caller may have closed them.
#pragma once

namespace autocfg::base {

// Opens /dev/null in place of each standard descriptor that is closed, for the other direction: reading
// standard input and writing the others then fails with EBADF. Else the next file or socket that is opened
// would take the place, and get what is meant for a stream.
void FillStandardDescriptors();

// In the source of main(): fills them when the program starts, before libraries open files of their own, as
// gRPC's does when it is loaded.
#define AUTOCFG_FILL_STANDARD_DESCRIPTORS_AT_START                                                 \
  [[gnu::section(".preinit_array"), gnu::used]] static void (*const fill_standard_descriptors)() = \
      autocfg::base::FillStandardDescriptors

// Flushes standard output, of both C and C++. Returns false if something of it was not written.
bool FlushStandardOutput();

}  // namespace autocfg::base
