// SQL statements with typed parameters and columns.
//
//   Execute(db, "UPDATE jobs SET state = ? WHERE id = ?", v1::TRIAL_STATE_QUEUED, job);
//   for (const auto& [id, study] : Query<std::int64_t, v1::Study>(db, "SELECT id, study FROM studies")) ...
//   if (const auto state = Query<v1::TrialState>(db, "SELECT state FROM jobs WHERE id = ?", job).Next()) ...
//
// A value is a bool, an int, an std::int64_t, a double, a string, an enum (stored as its number), a protobuf
// message (stored serialized), or an std::optional of these (NULL: no value).
//
// Statements throw SQLite::Exception. They do so if the SQL has another number of parameters or columns than
// the code, and with SQLITE_CORRUPT if a stored message does not parse.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "SQLiteCpp/Statement.h"
#include "fmt/format.h"
#include "google/protobuf/message_lite.h"

namespace autocfg::server {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <typename T>
void Bind(SQLite::Statement& statement, int index, const T& value) {
  if constexpr (kIsOptional<T>) {
    if (value) {
      Bind(statement, index, *value);
    } else {
      statement.bind(index);  // NULL
    }
  } else if constexpr (std::derived_from<T, google::protobuf::MessageLite>) {
    const std::string bytes = value.SerializeAsString();
    statement.bind(index, bytes.data(), static_cast<int>(bytes.size()));
  } else if constexpr (std::is_enum_v<T>) {
    statement.bind(index, static_cast<int>(value));
  } else {
    statement.bind(index, value);
  }
}

// Binds the values to the statement's parameters, in order.
template <typename... Values>
void BindAll(SQLite::Statement& statement, const Values&... values) {
  if (statement.getBindParameterCount() != static_cast<int>(sizeof...(Values))) {
    throw SQLite::Exception(
        fmt::format("{} values for the parameters of: {}", sizeof...(Values), statement.getQuery()),
        SQLITE_MISUSE);
  }
  int index = 0;
  (Bind(statement, ++index, values), ...);
}

// Runs a statement that returns no rows. Returns the number of rows that it changed.
template <typename... Values>
int Execute(SQLite::Database& db, const std::string& sql, const Values&... values) {
  SQLite::Statement statement(db, sql);
  BindAll(statement, values...);
  return statement.exec();
}

template <typename T>
T ValueOf(const SQLite::Column& column) {
  if constexpr (kIsOptional<T>) {
    return column.isNull() ? T() : T(ValueOf<typename T::value_type>(column));
  } else if constexpr (std::derived_from<T, google::protobuf::MessageLite>) {
    T message;
    if (message.ParseFromArray(column.getBlob(), column.getBytes())) return message;
    throw SQLite::Exception(fmt::format("a stored {} cannot be read", message.GetTypeName()), SQLITE_CORRUPT);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(column.getInt());
  } else if constexpr (std::same_as<T, bool>) {
    return column.getInt() != 0;
  } else {
    return column;  // its conversion operators
  }
}

// A statement that returns rows of such columns, read one by one.
template <typename... Columns>
class Query {
 public:
  // The value of a single column, or a tuple of values.
  using Row = std::conditional_t<sizeof...(Columns) == 1, std::tuple_element_t<0, std::tuple<Columns...>>,
                                 std::tuple<Columns...>>;

  // Without values, a statement with parameters is run by With().
  template <typename... Values>
  Query(SQLite::Database& db, const std::string& sql, const Values&... values) : statement_(db, sql) {
    if (statement_.getColumnCount() != static_cast<int>(sizeof...(Columns))) Fail("columns are read of");
    if (sizeof...(Values) > 0 || statement_.getBindParameterCount() == 0) With(values...);
  }

  // Runs the statement again, with these values.
  template <typename... Values>
  Query& With(const Values&... values) {
    statement_.reset();
    BindAll(statement_, values...);
    bound_ = true;
    return *this;
  }

  // Returns the next row, or nothing after the last one.
  std::optional<Row> Next() {
    if (!bound_) Fail("columns are read without values for");
    if (statement_.isDone() || !statement_.executeStep()) return std::nullopt;
    return Read(std::index_sequence_for<Columns...>());
  }
  // Returns the next row, which exists.
  Row One() {
    if (std::optional<Row> row = Next()) return *std::move(row);
    Fail("columns are expected, but no row came of");
  }
  // Returns the remaining rows.
  std::vector<Row> All() {
    std::vector<Row> rows;
    while (std::optional<Row> row = Next()) rows.push_back(*std::move(row));
    return rows;
  }
  // Whether all rows have been returned.
  bool Ended() const { return statement_.isDone(); }

  class Iterator {
   public:
    explicit Iterator(Query& query) : query_(query), row_(query.Next()) {}
    Row& operator*() { return *row_; }
    void operator++() { row_ = query_.Next(); }
    bool operator==(std::default_sentinel_t) const { return !row_; }

   private:
    Query& query_;
    std::optional<Row> row_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() { return {}; }

 private:
  template <std::size_t... indices>
  Row Read(std::index_sequence<indices...>) {
    return Row{ValueOf<Columns>(statement_.getColumn(indices))...};
  }
  [[noreturn]] void Fail(const char* what) const {
    throw SQLite::Exception(fmt::format("{} {}: {}", sizeof...(Columns), what, statement_.getQuery()),
                            SQLITE_MISUSE);
  }

  SQLite::Statement statement_;
  bool bound_ = false;
};

// Returns the struct whose members are the columns of a row, in order.
template <typename Struct, typename... Columns>
Struct Make(std::tuple<Columns...> row) {
  return std::apply([](Columns&... columns) { return Struct{std::move(columns)...}; }, row);
}

}  // namespace autocfg::server
