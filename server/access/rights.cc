#include "server/access/rights.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"

namespace autocfg::server {
namespace {

struct MethodRight {
  std::string_view method;
  Right right;
};

constexpr MethodRight kMethods[] = {
    {"/grpc.health.v1.Health/Check", Right::kPublic},
    {"/grpc.health.v1.Health/Watch", Right::kPublic},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Right::kRead},
    {"/autocfg.v1.StudyService/CreateStudy", Right::kSubmit},
    {"/autocfg.v1.StudyService/GetStudy", Right::kRead},
    {"/autocfg.v1.StudyService/ListStudies", Right::kRead},
    {"/autocfg.v1.StudyService/StartStudy", Right::kSubmit},
    {"/autocfg.v1.StudyService/PauseStudy", Right::kSubmit},
    {"/autocfg.v1.StudyService/ResumeStudy", Right::kSubmit},
    {"/autocfg.v1.StudyService/UpdateStudy", Right::kSubmit},
    {"/autocfg.v1.StudyService/CancelStudy", Right::kSubmit},
    {"/autocfg.v1.StudyService/DeleteStudy", Right::kSubmit},
    {"/autocfg.v1.StudyService/ListTrials", Right::kRead},
    {"/autocfg.v1.StudyService/GetTrial", Right::kRead},
    {"/autocfg.v1.StudyService/GetTrialLog", Right::kRead},
    {"/autocfg.v1.StudyService/RetryTrial", Right::kSubmit},
    {"/autocfg.v1.StudyService/GetRecommendation", Right::kRead},
    {"/autocfg.v1.StudyService/ListRejected", Right::kRead},
    {"/autocfg.v1.StudyService/ExportConfig", Right::kRead},
    {"/autocfg.v1.StudyService/GetReport", Right::kRead},
    {"/autocfg.v1.StudyService/WatchStudy", Right::kRead},
    {"/autocfg.v1.StudyService/Predict", Right::kRead},
    {"/autocfg.v1.WorkerService/RegisterWorker", Right::kWork},
    {"/autocfg.v1.WorkerService/LeaseWork", Right::kWork},
    {"/autocfg.v1.WorkerService/RenewLease", Right::kWork},
    {"/autocfg.v1.WorkerService/Rendezvous", Right::kWork},
    {"/autocfg.v1.WorkerService/ReportProgress", Right::kWork},
    {"/autocfg.v1.WorkerService/AppendTrialLog", Right::kWork},
    {"/autocfg.v1.WorkerService/ReportTrial", Right::kWork},
    {"/autocfg.v1.WorkerService/DrainWorker", Right::kAdminister},
    {"/autocfg.v1.WorkerService/DeregisterWorker", Right::kWork},
    {"/autocfg.v1.WorkerService/ListWorkers", Right::kRead},
    {"/autocfg.v1.AccessService/CreateToken", Right::kAdminister},
    {"/autocfg.v1.AccessService/ListTokens", Right::kAdminister},
    {"/autocfg.v1.AccessService/DeleteToken", Right::kAdminister},
};

// Returns the roles that include a right, as a message names them.
std::string_view RolesWith(Right right) {
  switch (right) {
    case Right::kPublic:
    case Right::kRead: return "read, submit or admin";
    case Right::kSubmit: return "submit or admin";
    case Right::kWork: return "worker or admin";
    case Right::kAdminister: break;
  }
  return "admin";
}

bool Includes(v1::Role role, Right right) {
  if (role == v1::ROLE_ADMIN || right == Right::kPublic) return true;
  switch (right) {
    case Right::kRead: return role == v1::ROLE_READ || role == v1::ROLE_SUBMIT;
    case Right::kSubmit: return role == v1::ROLE_SUBMIT;
    case Right::kWork: return role == v1::ROLE_WORKER;
    case Right::kPublic:
    case Right::kAdminister: break;
  }
  return false;
}

}  // namespace

Right RightOf(std::string_view method) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [&](const MethodRight& each) { return each.method == method; });
  return found == std::end(kMethods) ? Right::kAdminister : found->right;
}

bool IsAudited(std::string_view method) {
  if (method == "/autocfg.v1.WorkerService/RegisterWorker" ||
      method == "/autocfg.v1.WorkerService/DeregisterWorker")
    return true;
  if (method == "/autocfg.v1.AccessService/ListTokens") return false;  // changes nothing
  const Right right = RightOf(method);
  return right == Right::kSubmit || right == Right::kAdminister;
}

absl::Status CheckRight(v1::Role role, std::string_view method) {
  const Right right = RightOf(method);
  if (Includes(role, right)) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format("{}: a token with the role {} {}; use one with the role {}",
                                                 base::Printable(method), RoleName(role), kRoleTooLow,
                                                 RolesWith(right)));
}

std::string_view RoleName(v1::Role role) {
  switch (role) {
    case v1::ROLE_READ: return "read";
    case v1::ROLE_SUBMIT: return "submit";
    case v1::ROLE_WORKER: return "worker";
    case v1::ROLE_ADMIN: return "admin";
    default: return "unspecified";
  }
}

}  // namespace autocfg::server
