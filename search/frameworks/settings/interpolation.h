// The interpolations of OmegaConf, in which files of NeMo are written: ${a.b}, ${.b}, and the resolvers that
// NeMo and its launcher register, such as ${multiply:4, ${.hidden_size}}. Thread-safe.
#pragma once

#include "search/frameworks/settings/settings.h"

namespace autocfg {

// Puts in the values that interpolations stand for. What else stands in ${...} cannot be known, nor can ???,
// a value that is said at launch.
void Interpolate(SettingsText& settings);

}  // namespace autocfg
