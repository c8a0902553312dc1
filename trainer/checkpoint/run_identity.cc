#include "trainer/checkpoint/run_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/reflection.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/model_spec.h"

namespace autocfg::trainer {
namespace {

using Field = google::protobuf::FieldDescriptor;

std::string TextOf(const google::protobuf::Message& message, const Field& field) {
  const google::protobuf::Reflection& values = *message.GetReflection();
  if (field.is_repeated() && field.cpp_type() == Field::CPPTYPE_DOUBLE) {
    const auto& numbers = values.GetRepeatedFieldRef<double>(message, &field);
    return fmt::format("{}", fmt::join(numbers.begin(), numbers.end(), " "));
  }
  if (!field.is_repeated()) {
    switch (field.cpp_type()) {
      case Field::CPPTYPE_INT64: return fmt::format("{}", values.GetInt64(message, &field));
      case Field::CPPTYPE_DOUBLE: return fmt::format("{}", values.GetDouble(message, &field));
      case Field::CPPTYPE_BOOL: return fmt::format("{}", values.GetBool(message, &field));
      case Field::CPPTYPE_STRING: return values.GetString(message, &field);
      default: break;
    }
  }
  throw std::logic_error(fmt::format("run identity: {} has a type without a text", field.full_name()));
}

// Adds every field of the message but its name, which says nothing about the numbers. An absent message in it
// adds nothing. The messages of a list have numbers. Of these, only fields that are set count: the default of
// an optional field need not be the zero of its type.
void AddFields(std::string_view prefix, const google::protobuf::Message& message, RunIdentity& identity,
               bool in_list = false) {
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const Field& field = *type.field(i);
    if (field.cpp_type() == Field::CPPTYPE_MESSAGE) {
      const google::protobuf::Reflection& values = *message.GetReflection();
      const std::string name = fmt::format("{}.{}", prefix, field.name());
      const int count = field.is_repeated() ? values.FieldSize(message, &field) : 0;
      for (int n = 0; n < count; ++n) {
        AddFields(fmt::format("{}.{}", name, n), values.GetRepeatedMessage(message, &field, n), identity,
                  /*in_list=*/true);
      }
      if (!field.is_repeated() && values.HasField(message, &field))
        AddFields(name, values.GetMessage(message, &field), identity);
    } else if (field.name() != "name" && !(in_list && !message.GetReflection()->HasField(message, &field))) {
      identity.emplace_back(fmt::format("{}.{}", prefix, field.name()), TextOf(message, field));
    }
  }
}

const std::string* Find(const RunIdentity& identity, const std::string& name) {
  const auto found = std::ranges::find(identity, name, &RunIdentity::value_type::first);
  return found == identity.end() ? nullptr : &found->second;
}

}  // namespace

RunIdentity IdentityOf(const TrainConfig& c, const std::string& data) {
  RunIdentity identity;
  AddFields("model", ToProto(c.model), identity);
  // A field that is predicted only says nothing of a run.
  std::erase_if(identity, [](const auto& entry) {
    return std::ranges::any_of(ModelFields(), [&](const ModelField& field) {
      return field.support != Support::kRun && entry.first == fmt::format("model.{}", field.name);
    });
  });
  AddFields("workload", ToProto(c.workload), identity);
  const auto add = [&](const char* name, const auto& value) {
    identity.emplace_back(name, fmt::format("{}", value));
  };
  const bool cosine = c.lr.decay == LrDecay::kCosine;
  add("optimizer.lr", c.lr.lr);
  add("optimizer.lr_schedule", cosine ? "cosine" : "constant");
  add("optimizer.warmup_steps", c.lr.warmup_steps);
  if (cosine) {
    add("optimizer.min_lr", c.lr.min_lr);
    add("steps", c.lr.steps);
  }
  add("optimizer.weight_decay", c.adamw.weight_decay);
  add("optimizer.beta1", c.adamw.beta1);
  add("optimizer.beta2", c.adamw.beta2);
  add("optimizer.adam_eps", c.adamw.eps);
  add("optimizer.clip_norm", c.clip_norm);
  add("seed", c.seed);
  add("data", data);
  return identity;
}

std::string FirstDifference(const RunIdentity& checkpoint, const RunIdentity& run) {
  for (const auto& [name, value] : checkpoint) {
    const std::string* here = Find(run, name);
    if (here == nullptr)
      return fmt::format("{} is {} in the checkpoint and not a field of this run", name, value);
    if (*here != value)
      return fmt::format("{} is {} in the checkpoint and {} in this run", name, value, *here);
  }
  for (const auto& [name, value] : run) {
    if (Find(checkpoint, name) == nullptr)
      return fmt::format("{} is {} in this run and not a field of the checkpoint", name, value);
  }
  return "";
}

}  // namespace autocfg::trainer
