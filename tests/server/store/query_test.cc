#include "server/store/query.h"

#include "autocfg/v1/study_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Returns what the exception of `run` says; "": it throws none.
template <typename Run>
std::string ErrorOf(Run run) {
  try {
    run();
  } catch (const SQLite::Exception& error) {
    return error.what();
  }
  return "";
}

class QueryTest : public testing::Test {
 protected:
  QueryTest() { Execute(db_, "CREATE TABLE t (id INTEGER, name TEXT, seconds REAL, study BLOB)"); }

  SQLite::Database db_{":memory:", SQLite::OPEN_READWRITE};
};

TEST_F(QueryTest, ReadsWhatWasWritten) {
  v1::Study study;
  study.set_name("studies/7");
  Execute(db_, "INSERT INTO t VALUES (?, ?, ?, ?)", v1::STUDY_STATE_RUNNING, "a", std::optional<double>(0.5),
          study);
  Execute(db_, "INSERT INTO t VALUES (?, ?, ?, ?)", true, std::string("b"), std::optional<double>(), study);
  Query<v1::StudyState, bool, std::string, std::optional<double>, v1::Study> rows(
      db_, "SELECT id, id, name, seconds, study FROM t ORDER BY name");
  const auto [state, truth, name, seconds, stored] = rows.One();
  EXPECT_EQ(state, v1::STUDY_STATE_RUNNING);
  EXPECT_TRUE(truth);
  EXPECT_EQ(name, "a");
  EXPECT_EQ(seconds, 0.5);
  EXPECT_EQ(stored.name(), "studies/7");
  EXPECT_EQ(std::get<3>(rows.One()), std::nullopt);
  EXPECT_FALSE(rows.Next());
}

TEST_F(QueryTest, RunsAgainWithOtherValues) {
  for (const int id : {1, 2, 3}) Execute(db_, "INSERT INTO t (id) VALUES (?)", id);
  Query<int> larger(db_, "SELECT id FROM t WHERE id > ? ORDER BY id");
  EXPECT_THAT(larger.With(1).All(), ElementsAre(2, 3));
  EXPECT_EQ(larger.With(0).Next(), 1);
  EXPECT_FALSE(larger.Ended());
  std::vector<std::pair<int, int>> pairs;
  for (const auto& [id, twice] : Query<int, int>(db_, "SELECT id, 2 * id FROM t WHERE id > ?", 2))
    pairs.emplace_back(id, twice);
  EXPECT_THAT(pairs, ElementsAre(Pair(3, 6)));
}

TEST_F(QueryTest, OtherNumbersOfColumnsAndValuesAreErrorsThatNameTheQuery) {
  const std::string columns = "SELECT id, name FROM t", values = "SELECT id FROM t WHERE id > ?";
  EXPECT_THAT(ErrorOf([&] { (Query<int>(db_, columns)); }), HasSubstr(columns));
  EXPECT_THAT(ErrorOf([&] { (Query<int, std::string, int>(db_, columns)); }), HasSubstr(columns));
  EXPECT_THAT(ErrorOf([&] { (Query<int>(db_, values, 1, 2)); }), HasSubstr(values));
  EXPECT_THAT(ErrorOf([&] { Query<int>(db_, values).Next(); }), HasSubstr(values));
  EXPECT_THAT(ErrorOf([&] { Query<int>(db_, values, 1).One(); }), HasSubstr(values));
  EXPECT_THAT(ErrorOf([&] { Execute(db_, "DELETE FROM t WHERE id = ?"); }), HasSubstr("DELETE FROM t"));
}

TEST_F(QueryTest, DamagedMessageIsCorruption) {
  Execute(db_, "INSERT INTO t (study) VALUES (x'ff')");
  try {
    Query<v1::Study>(db_, "SELECT study FROM t").One();
    FAIL();
  } catch (const SQLite::Exception& error) {
    EXPECT_EQ(error.getErrorCode(), SQLITE_CORRUPT);
    EXPECT_THAT(error.what(), HasSubstr("autocfg.v1.Study"));
  }
}

}  // namespace
}  // namespace autocfg::server
