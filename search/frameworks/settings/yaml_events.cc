#include "search/frameworks/settings/yaml_events.h"

#include <utility>

namespace autocfg {
namespace {

std::string TextFrom(const yaml_char_t* text) {
  return text == nullptr ? "" : std::string(reinterpret_cast<const char*>(text));
}

bool Begins(const YamlEvent& event) {
  return event.type == YAML_MAPPING_START_EVENT || event.type == YAML_SEQUENCE_START_EVENT;
}
bool Ends(const YamlEvent& event) {
  return event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT;
}

}  // namespace

YamlEvent YamlEventOf(const yaml_event_t& event) {
  YamlEvent copy{.type = event.type, .begin = event.start_mark, .end = event.end_mark};
  switch (event.type) {
    case YAML_SCALAR_EVENT:
      copy.value.assign(reinterpret_cast<const char*>(event.data.scalar.value), event.data.scalar.length);
      copy.style = event.data.scalar.style;
      copy.anchor = TextFrom(event.data.scalar.anchor);
      break;
    case YAML_ALIAS_EVENT: copy.value = TextFrom(event.data.alias.anchor); break;
    case YAML_MAPPING_START_EVENT: copy.anchor = TextFrom(event.data.mapping_start.anchor); break;
    case YAML_SEQUENCE_START_EVENT: copy.anchor = TextFrom(event.data.sequence_start.anchor); break;
    default: break;
  }
  return copy;
}

void YamlAnchors::Record(const YamlEvent& event) {
  if (!event.anchor.empty()) {
    open_.push_back({.anchor = event.anchor, .begin = events_.size(), .depth = depth_});
  }
  if (Ends(event)) --depth_;
  if (!open_.empty()) {
    events_.push_back(event);
    events_.back().anchor.clear();
  }
  if (Begins(event)) ++depth_;
  while (!open_.empty() && open_.back().depth == depth_) {
    Close(open_.back());
    open_.pop_back();
  }
  if (open_.empty()) events_.clear();
}

void YamlAnchors::Close(const OpenNode& node) {
  nodes_[node.anchor] = {events_.begin() + static_cast<std::ptrdiff_t>(node.begin), events_.end()};
}

const std::vector<YamlEvent>* YamlAnchors::Find(std::string_view anchor) const {
  const auto found = nodes_.find(anchor);
  return found == nodes_.end() ? nullptr : &found->second;
}

}  // namespace autocfg
