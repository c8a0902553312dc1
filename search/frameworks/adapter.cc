#include "search/frameworks/adapter.h"

#include <string>

#include "search/frameworks/framework_rules.h"

namespace autocfg {

std::span<const FrameworkAdapter* const> FrameworkAdapters() {
  static constexpr const FrameworkAdapter* kAdapters[] = {
      &kMegatronAdapter,  &kMegatronBridgeAdapter, &kNemoAdapter,
      &kDeepSpeedAdapter, &kTorchtitanAdapter,     &kNanotronAdapter,
      &kGptNeoxAdapter,   &kAccelerateAdapter,     &kMaxTextAdapter};
  return kAdapters;
}

const FrameworkAdapter* FindFrameworkAdapter(std::string_view framework) {
  for (const FrameworkAdapter* adapter : FrameworkAdapters()) {
    if (adapter->target.name == framework) return adapter;
  }
  const FrameworkAdapter& fork = kMegatronDeepSpeedAdapter;
  return fork.target.name == framework ? &fork : nullptr;
}

std::span<const LegalityRule> FrameworkRules(std::string_view framework) {
  const FrameworkAdapter* adapter = FindFrameworkAdapter(framework);
  return adapter == nullptr ? std::span<const LegalityRule>() : adapter->rules;
}

std::string WhyNotExpressible(std::span<const LegalityRule> rules, const PlanCase& plan) {
  for (const LegalityRule& rule : rules) {
    if (rule.broken(plan)) return rule.explain(plan);
  }
  return "";
}

bool HasLineThatBegins(std::string_view text, std::string_view with) {
  for (std::size_t at = text.find(with); at != std::string_view::npos; at = text.find(with, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return true;
  }
  return false;
}

}  // namespace autocfg
