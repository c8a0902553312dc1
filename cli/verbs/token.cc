// autocfg token: makes, lists and deletes the tokens with which callers of a coordinator show who they are.
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/os/atomic_file.h"
#include "base/os/host.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/access_client.h"
#include "cli/client/study_names.h"
#include "cli/input/service_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/verbs.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "proto/rpc/duration.h"
#include "server/access/rights.h"
#include "server/access/token_table.h"
#include "server/store/lock_file.h"
#include "server/store/sqlite/sqlite_store.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr v1::Role kRoles[] = {v1::ROLE_READ, v1::ROLE_SUBMIT, v1::ROLE_WORKER, v1::ROLE_ADMIN};
constexpr double kShortestTokenSeconds = 60;
constexpr double kLongestTokenSeconds = 10 * kYearSeconds;

struct TokenArgs {
  ServiceOptions service;
  std::string name;
  std::string role;
  std::string owner;
  std::string expires;
  std::string output;
  bool json = false;
};

// The tokens of a coordinator, or those of a database that no coordinator has open.
class Tokens {
 public:
  // Without `creates`, the database must be there.
  static absl::StatusOr<Tokens> Of(const ServiceOptions& options, bool creates) {
    AUTOCFG_RETURN_IF_ERROR(CheckServiceOptions(options));
    Tokens tokens;
    if (options.remote()) {
      AUTOCFG_ASSIGN_OR_RETURN(const auto endpoint, EndpointOf(options));
      tokens.client_ = std::make_unique<AccessClient>(endpoint);
      return tokens;
    }
    AUTOCFG_ASSIGN_OR_RETURN(const auto path, server::DatabasePath(options.database));
    std::error_code ignored;
    if (!creates && !std::filesystem::exists(path, ignored)) {
      return absl::NotFoundError(fmt::format(
          "database {}: there is no such file; give the --db of the server, or --coordinator unix:PATH",
          path));
    }
    auto store = server::OpenSqliteStore(path);
    if (server::IsInUse(store.status())) {
      return absl::FailedPreconditionError(fmt::format(
          "{}; give --coordinator unix:PATH with the socket of that server", Text(store.status())));
    }
    if (!store.ok()) return store.status();
    tokens.store_ = *std::move(store);
    tokens.table_ = std::make_unique<server::TokenTable>(*tokens.store_, base::SystemClock());
    AUTOCFG_RETURN_IF_ERROR(tokens.table_->Load());
    return tokens;
  }

  absl::StatusOr<v1::CreateTokenResponse> Create(const v1::Token& token) {
    return client_ ? client_->CreateToken(token) : table_->Create(token);
  }
  absl::StatusOr<std::vector<v1::Token>> List() {
    if (client_) return client_->ListTokens();
    return table_->List();
  }
  absl::Status Delete(const std::string& name) {
    return client_ ? client_->DeleteToken(name) : table_->Delete(name);
  }

 private:
  std::unique_ptr<AccessClient> client_;
  std::unique_ptr<server::Store> store_;
  std::unique_ptr<server::TokenTable> table_;
};

std::string ResourceOf(const std::string& name) {
  return name.starts_with("tokens/") ? name : "tokens/" + name;
}

std::string DateOf(double unix_s) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(unix_s)));
}

Json TokenJson(const v1::Token& token) {
  return {{"token", token.name()},
          {"role", server::RoleName(token.role())},
          {"owner", token.owner()},
          {"create_time_s", token.create_time_s()},
          {"expire_time_s", token.expire_time_s() == 0 ? Json(nullptr) : Json(token.expire_time_s())}};
}

absl::StatusOr<v1::Token> TokenOf(const TokenArgs& args) {
  v1::Token token;
  token.set_name(ResourceOf(args.name));
  for (const v1::Role role : kRoles) {
    if (args.role == server::RoleName(role)) token.set_role(role);
  }
  if (token.role() == v1::ROLE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        args.role.empty() ? "--role is missing; give read, submit, worker or admin"
                          : fmt::format("--role: unknown role '{}'; give read, submit, worker or admin",
                                        base::Printable(args.role)));
  }
  token.set_owner(args.owner);
  if (!args.expires.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto in_s, ParseDuration("--expires", args.expires, kShortestTokenSeconds,
                                                            kLongestTokenSeconds));
    token.set_expire_time_s(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + in_s);
  }
  return token;
}

// The file of --output, which only its owner may read. It must not exist yet, so that no token is lost.
class SecretFile {
 public:
  explicit SecretFile(const std::string& path) : path_(path), file_(path) {}

  absl::Status Open() {
    if (path_.empty()) return absl::OkStatus();
    std::error_code ignored;
    if (std::filesystem::exists(path_, ignored)) return StatusOf(make_error_code(std::errc::file_exists));
    return StatusOf(file_.Open(0600));
  }
  absl::Status Write(const std::string& text) {
    if (path_.empty()) return absl::OkStatus();
    if (const std::error_code error = file_.Append(text)) return StatusOf(error);
    return StatusOf(file_.Finish(/*replace=*/false));
  }

 private:
  absl::Status StatusOf(const std::error_code& error) const {
    if (!error) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("--output: {}: cannot be written ({}); give another file",
                                                  base::Printable(path_), error.message()));
  }

  const std::string path_;
  base::AtomicFile file_;
};

int RunCreate(const TokenArgs& args) {
  const auto token = TokenOf(args);
  if (!token.ok()) return Fail(token.status());
  SecretFile file(args.output);
  if (auto status = file.Open(); !status.ok()) return Fail(status);
  auto tokens = Tokens::Of(args.service, /*creates=*/true);
  if (!tokens.ok()) return Fail(tokens.status());
  const auto made = tokens->Create(*token);
  if (!made.ok()) return Fail(made.status());
  if (auto status = file.Write(made->text() + "\n"); !status.ok()) {
    (void)tokens->Delete(made->token().name());  // nobody has its text
    return Fail(status);
  }
  if (args.json) {
    Json json = TokenJson(made->token());
    if (args.output.empty()) json["text"] = made->text();
    return Answer(json.dump(2) + "\n");
  }
  const v1::Role role = made->token().role();
  const bool has_studies = role == v1::ROLE_SUBMIT || role == v1::ROLE_ADMIN;
  const std::string has =
      fmt::format("{} has the role {}{}", made->token().name(), server::RoleName(role),
                  has_studies ? fmt::format(", and its studies belong to {}", made->token().owner()) : "");
  if (!args.output.empty()) return Answer(fmt::format("{}; its text is in {}\n", has, args.output));
  Note(fmt::format("{}; keep its text secret, since it is not shown again", has));
  return Answer(made->text() + "\n");
}

int RunList(const TokenArgs& args) {
  auto tokens = Tokens::Of(args.service, /*creates=*/false);
  if (!tokens.ok()) return Fail(tokens.status());
  const auto all = tokens->List();
  if (!all.ok()) return Fail(all.status());
  if (args.json) {
    Json json = Json::array();
    for (const v1::Token& token : *all) json.push_back(TokenJson(token));
    return Answer(json.dump(2) + "\n");
  }
  if (all->empty()) Note("no tokens; autocfg token create makes one");
  std::vector<std::vector<std::string>> rows = {{"token", "role", "owner", "created", "expires"}};
  for (const v1::Token& token : *all) {
    rows.push_back({LastPart(token.name()), std::string(server::RoleName(token.role())), token.owner(),
                    DateOf(token.create_time_s()),
                    token.expire_time_s() == 0 ? "never" : DateOf(token.expire_time_s())});
  }
  return Answer(Table(rows, {.text = true}));
}

int RunDelete(const TokenArgs& args) {
  auto tokens = Tokens::Of(args.service, /*creates=*/false);
  if (!tokens.ok()) return Fail(tokens.status());
  const std::string name = ResourceOf(args.name);
  const absl::Status status = tokens->Delete(name);
  if (absl::IsNotFound(status))
    return Fail(absl::NotFoundError(fmt::format("there is no {}; autocfg token list shows all", name)));
  if (!status.ok()) return Fail(status);
  return Answer(fmt::format("{} is deleted: calls with it fail from now on\n", name));
}

using Run = int (*)(const TokenArgs&);

void Choose(CLI::App& verb, Verb& chosen, const std::shared_ptr<TokenArgs>& args, Run run) {
  AddServiceOptions(&verb, args->service);
  verb.callback([args, run, &chosen] { chosen = [args, run] { return run(*args); }; });
}

}  // namespace

void AddToken(CLI::App& app, Verb& chosen) {
  CLI::App& token = *app.add_subcommand("token", "make, list and delete tokens of a coordinator's callers");
  token.require_subcommand(0, 1);

  const auto created = std::make_shared<TokenArgs>();
  CLI::App& create = *token.add_subcommand("create", "make a token, and print its text");
  create.add_option("name", created->name, "its name, unique on the coordinator")->required();
  create.add_option("--role", created->role,
                    "what its callers may do: read; submit (read, and have studies); worker (join as one); "
                    "admin (everything)");
  create.add_option("--owner", created->owner, "whose studies its callers have (default: its name)");
  create.add_option("--expires", created->expires, "in what time it expires, such as 90d (default: never)");
  create.add_option("--output", created->output, "write its text to this new file, which only you may read");
  create.add_flag("--json", created->json, "as JSON");
  Choose(create, chosen, created, RunCreate);

  const auto listed = std::make_shared<TokenArgs>();
  CLI::App& list = *token.add_subcommand("list", "list the tokens, without their texts");
  list.add_flag("--json", listed->json, "as JSON");
  Choose(list, chosen, listed, RunList);

  const auto deleted = std::make_shared<TokenArgs>();
  CLI::App& remove = *token.add_subcommand("delete", "delete a token: calls with it fail from now on");
  remove.add_option("name", deleted->name, "its name")->required();
  Choose(remove, chosen, deleted, RunDelete);
}

}  // namespace autocfg::cli
