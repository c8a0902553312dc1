#include "proto/convert/breakdown_convert.h"

#include "proto/convert/message_fields.h"

namespace autocfg {

v1::Breakdown ToProto(const Breakdown& breakdown) {
  v1::Breakdown message;
  for (const BreakdownPart& part : kBreakdownParts)
    message.GetReflection()->SetDouble(&message, &FieldNamed(message, part.name), breakdown.*part.seconds);
  return message;
}

Breakdown FromProto(const v1::Breakdown& message) {
  Breakdown breakdown;
  for (const BreakdownPart& part : kBreakdownParts)
    breakdown.*part.seconds = message.GetReflection()->GetDouble(message, &FieldNamed(message, part.name));
  return breakdown;
}

v1::Breakdown ToProto(const RankBreakdown& breakdown) {
  v1::Breakdown message = ToProto(breakdown.parts);
  message.set_hidden_comm(breakdown.hidden_comm_s);
  return message;
}

}  // namespace autocfg
