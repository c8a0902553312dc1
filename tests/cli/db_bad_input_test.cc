// Bad input to the verbs of `db`, as a user sees it.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/cli/one_clear_line.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

struct DbCase {
  const char* name;
  std::vector<std::string> args;
  int exit_code;
  std::vector<std::string> says;
};

void PrintTo(const DbCase& c, std::ostream* out) { *out << c.name; }

std::vector<DbCase> DbCases() {
  return {
      {"DbAlone",
       {"db"},
       2,
       {"db: no verb; give one of check, backup, export, import or prune (autocfg db --help)"}},
      {"DbUnknown", {"db", "bakup"}, 2, {"unknown verb 'db bakup'", "did you mean backup?"}},
      {"CheckOfNothing",
       {"db", "check", "--db", "nope.db"},
       2,
       {"nope.db: no such database; name one that a search has created"}},
      {"PruneOfNothing",
       {"db", "prune", "--db", "nope.db"},
       2,
       {"nope.db: no such database; name one that a search has created"}},
      {"PruneOfTheMissingDefault",
       {"db", "prune"},
       2,
       {"autocfg.db: no such database; name one that a search has created"}},
      {"CheckInNoDirectory",
       {"db", "check", "--db", Missing("/nonexistent/x.db")},
       2,
       {Missing("--db: /nonexistent/x.db: /nonexistent is not a directory; make it")}},
      {"PruneInNoDirectory",
       {"db", "prune", "--db", Missing("/nonexistent/x.db")},
       2,
       {Missing("--db: /nonexistent/x.db: /nonexistent is not a directory; make it")}},
      {"ImportIntoNoDirectory",
       {"db", "import", "s.jsonl", "--db", Missing("/nonexistent/x.db")},
       2,
       {Missing("--db: /nonexistent/x.db: /nonexistent is not a directory; make it")}},
      {"PruneOlderThanWords", {"db", "prune", "--older-than", "last week"}, 2, {"--older-than: 'last week'"}},
      {"PruneOlderThanNoUnit",
       {"db", "prune", "--older-than", "1x"},
       2,
       {"--older-than: '1x'", "with the unit ms, s, m, h or d, such as 90"}},
      {"PruneKeepNone", {"db", "prune", "--keep-studies", "0"}, 2, {"--keep-studies: invalid value '0'"}},
      {"PruneBytesOfWords", {"db", "prune", "--max-bytes", "few"}, 2, {"--max-bytes", "few"}},
      {"ExportToNowhere", {"db", "export", "--db", "x.db", "--study", "1"}, 2, {"--output is missing"}},
      {"ExportOfNothing",
       {"db", "export", "--db", "nope.db", "--study", "1", "--output", "s.jsonl"},
       2,
       {"nope.db: no such database; name one that a search has created"}},
      {"ExportToNoFile",
       {"db", "export", "--db", "x.db", "--study", "1", "--output", "-"},
       2,
       {"--output: - is no file, and a regular file is needed"}},
      {"BackupToNoFile",
       {"db", "backup", "--db", "x.db", "--output", "-"},
       2,
       {"--output: - is no file, and a regular file is needed"}},
      {"ExportOfWords",
       {"db", "export", "--db", "x.db", "--study", "first", "--output", "s.jsonl"},
       2,
       {"--study: invalid value 'first'"}},
      {"ImportOfNothing",
       {"db", "import", Missing("/nonexistent/s.jsonl")},
       2,
       {Missing("/nonexistent/s.jsonl: there is no")}},
      {"ImportWithoutFile", {"db", "import"}, 2, {"FILE"}},
      {"BackupToNowhere", {"db", "backup", "--db", Missing("/nonexistent/x.db")}, 2, {"--output is missing"}},
      {"BackupOfNothing",
       {"db", "backup", "--db", "nope.db", "--output", "copy.db"},
       2,
       {"nope.db: no such database; name one that a search has created"}}};
}

class DbBadInputTest : public testing::TestWithParam<DbCase> {};

TEST_P(DbBadInputTest, OneClearLine) {
  ExpectOneClearLine(GetParam().args, GetParam().exit_code, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(All, DbBadInputTest, testing::ValuesIn(DbCases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace autocfg::cli
