// The events of a document of YAML, as libyaml has them, and what its anchors stand for. Not thread-safe.
#pragma once

#include <yaml.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

struct YamlEvent {
  yaml_event_type_t type = YAML_NO_EVENT;
  std::string value = {};   // of a scalar; of an alias, the name of its anchor
  std::string anchor = {};  // the name that it gets; empty: none
  yaml_scalar_style_t style = YAML_ANY_SCALAR_STYLE;
  yaml_mark_t begin = {}, end = {};
};

// Copies what the event says.
YamlEvent YamlEventOf(const yaml_event_t& event);

// Records the nodes that have anchors, so that aliases can repeat them.
class YamlAnchors {
 public:
  // Takes the next event of the document.
  void Record(const YamlEvent& event);
  // Returns the events of the node that has the anchor; null if none that has ended has it.
  const std::vector<YamlEvent>* Find(std::string_view anchor) const;

 private:
  struct OpenNode {
    std::string anchor;
    std::size_t begin = 0;  // its first event in `events_`
    int depth = 0;          // of the collections that it is in
  };

  void Close(const OpenNode& node);

  std::vector<YamlEvent> events_;  // since the outermost open node that has an anchor began
  std::vector<OpenNode> open_;
  std::map<std::string, std::vector<YamlEvent>, std::less<>> nodes_;
  int depth_ = 0;
};

}  // namespace autocfg
