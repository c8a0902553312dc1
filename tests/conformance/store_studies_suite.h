// Part of the contract of Store: studies, their usage, and their changes.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

TEST_P(StoreSuite, StudyIsKeptAsCreated) {
  const v1::Study made = NewStudy("abc");
  EXPECT_EQ(made.state(), v1::STUDY_STATE_CREATED);
  EXPECT_EQ(made.create_time_s(), 100);
  auto read = store_->GetStudy(Id(made));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->SerializeAsString(), made.SerializeAsString());
  EXPECT_EQ(read->spec().model().name(), "tiny");
  EXPECT_EQ(store_->GetStudy(Id(made) + 1).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, CreateIsIdempotentByRequestId) {
  const v1::Study first = NewStudy("abc", "r1");
  EXPECT_EQ(NewStudy("abc", "r1").name(), first.name());
  EXPECT_NE(NewStudy("abc", "r2").name(), first.name());
  EXPECT_NE(NewStudy("abc").name(), NewStudy("abc").name());
  v1::Study other;
  other.set_fingerprint("another");
  EXPECT_EQ(store_->CreateStudy("r1", other, 101).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->ListStudies(0, 100)->size(), 4u);
  EXPECT_EQ((*store_->CreatedBy("r1"))->name(), first.name());
  EXPECT_FALSE(store_->CreatedBy("r3")->has_value());
  EXPECT_FALSE(store_->CreatedBy("")->has_value());
}

TEST_P(StoreSuite, ListsNewestFirstInPages) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Id(NewStudy()));
  std::vector<std::int64_t> seen;
  std::int64_t before = 0;
  while (true) {
    auto page = store_->ListStudies(before, 2);
    ASSERT_TRUE(page.ok());
    if (page->empty()) break;
    EXPECT_LE(page->size(), 2u);
    for (const v1::Study& study : *page) seen.push_back(Id(study));
    before = seen.back();
  }
  EXPECT_EQ(seen, std::vector<std::int64_t>(ids.rbegin(), ids.rend()));
}

TEST_P(StoreSuite, NewestUnfinishedStudyIsReused) {
  v1::Study wanted;
  wanted.set_fingerprint("f");
  const auto reused = [&](const std::string& request_id = "") {
    return Id(*store_->CreateOrReuseStudy(request_id, wanted, 1));
  };
  const std::int64_t a = NewRunning();
  const std::int64_t b = NewRunning();
  NewStudy("g");
  EXPECT_EQ(reused(), b);
  SetState(b, v1::STUDY_STATE_PAUSED);
  EXPECT_EQ(reused(), b);
  SetState(b, v1::STUDY_STATE_DONE);
  EXPECT_EQ(reused(), a);
  SetState(a, v1::STUDY_STATE_FAILED);
  const std::int64_t made = reused();
  EXPECT_GT(made, b) << "none was left";
  EXPECT_EQ(reused(), made);
}

// A request that made or found a study returns the same study again, whatever happened to it and to other
// studies since.
TEST_P(StoreSuite, ReusingAStudyIsIdempotent) {
  v1::Study wanted;
  wanted.set_fingerprint("f");
  const std::int64_t a = Id(*store_->CreateOrReuseStudy("one", wanted, 1));
  const std::int64_t b = Id(*store_->CreateStudy("two", wanted, 2));
  EXPECT_EQ(Id(*store_->CreateOrReuseStudy("one", wanted, 3)), a) << "although a newer one is unfinished";
  EXPECT_EQ(Id(*store_->CreateOrReuseStudy("three", wanted, 4)), b);
  SetState(b, v1::STUDY_STATE_CANCELLED);
  const auto again = store_->CreateOrReuseStudy("three", wanted, 5);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Id(*again), b) << "the retry of a request makes no second search";
  EXPECT_EQ(again->state(), v1::STUDY_STATE_CANCELLED);
  wanted.set_fingerprint("g");
  EXPECT_EQ(store_->CreateOrReuseStudy("three", wanted, 6).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_P(StoreSuite, ListsStudiesByState) {
  const std::int64_t a = NewRunning();
  NewStudy();
  const std::int64_t b = NewRunning();
  EXPECT_EQ(*store_->StudiesInState(v1::STUDY_STATE_RUNNING), (std::vector<std::int64_t>{a, b}));
  EXPECT_TRUE(store_->StudiesInState(v1::STUDY_STATE_PAUSED)->empty());
}

TEST_P(StoreSuite, UpdateChangesOnlyMutableFields) {
  v1::Study study = NewStudy("abc");
  study.set_state(v1::STUDY_STATE_RUNNING);
  study.set_phase("measuring");
  study.set_eta_s(4);
  study.mutable_counts()->set_enumerated(7);
  study.mutable_best()->set_plan_text("tp=1");
  study.set_fingerprint("forged");
  study.set_owner("forged");
  study.mutable_spec()->mutable_model()->set_name("forged");
  study.set_create_time_s(1);
  ASSERT_TRUE(ReplaceStudy(*store_, study).ok());
  const v1::Study read = *store_->GetStudy(Id(study));
  EXPECT_EQ(read.state(), v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(read.phase(), "measuring");
  EXPECT_EQ(read.eta_s(), 4);
  EXPECT_EQ(read.counts().enumerated(), 7);
  EXPECT_EQ(read.best().plan_text(), "tp=1");
  EXPECT_EQ(read.fingerprint(), "abc");
  EXPECT_EQ(read.owner(), "me");
  EXPECT_EQ(read.spec().model().name(), "tiny");
  EXPECT_EQ(read.create_time_s(), 100);
  study.set_name("studies/999");
  EXPECT_EQ(ReplaceStudy(*store_, study).code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, FinalStateIsNeverLeft) {
  for (const v1::StudyState end : {v1::STUDY_STATE_DONE, v1::STUDY_STATE_FAILED, v1::STUDY_STATE_CANCELLED}) {
    v1::Study study = NewStudy();
    study.set_state(end);
    ASSERT_TRUE(ReplaceStudy(*store_, study).ok());
    study.set_message("why");
    EXPECT_TRUE(ReplaceStudy(*store_, study).ok());
    for (const v1::StudyState next :
         {v1::STUDY_STATE_RUNNING, v1::STUDY_STATE_CREATED, v1::STUDY_STATE_PAUSED}) {
      study.set_state(next);
      study.set_message("forged");
      EXPECT_EQ(ReplaceStudy(*store_, study).code(), absl::StatusCode::kFailedPrecondition);
    }
    EXPECT_EQ(store_->GetStudy(Id(study))->state(), end);
    EXPECT_EQ(store_->GetStudy(Id(study))->message(), "why");
  }
}

TEST_P(StoreSuite, MessagesNameStatesWithoutTheirPrefix) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const auto lease = Take(epoch);
  ASSERT_TRUE(lease);
  ASSERT_TRUE(store_->Report(Measured(*lease, epoch, "r1"), 201).ok());
  std::vector<absl::Status> refused = {
      store_->Report(Measured(*lease, epoch, "r2"), 202),
      store_->RetryTrial(id, 1, "").status(),
  };
  EXPECT_THAT(refused[0].message(), testing::HasSubstr("has ended (MEASURED)"));
  EXPECT_THAT(refused[1].message(), testing::HasSubstr("is MEASURED; only trials that"));
  SetState(id, v1::STUDY_STATE_DONE);
  v1::Trial trial;
  trial.set_plan_text("tp=2");
  refused.push_back(store_->EnqueueTrial(id, trial, TrainJob(), 2).status());
  refused.push_back(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}));
  refused.push_back(store_->RetryTrial(id, 1, "").status());
  refused.push_back(store_
                        ->ModifyStudy(id,
                                      [](v1::Study& study) {
                                        study.set_state(v1::STUDY_STATE_RUNNING);
                                        return absl::OkStatus();
                                      })
                        .status());
  for (std::size_t i = 2; i < refused.size(); ++i)
    EXPECT_THAT(refused[i].message(), testing::HasSubstr("studies/1 has ended (DONE) and ")) << refused[i];
  for (const absl::Status& status : refused)
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST_P(StoreSuite, ModifyIsOneTransactionAndIdempotent) {
  const std::int64_t id = Id(NewStudy());
  int calls = 0;
  const auto pause = [&](v1::Study& study) {
    ++calls;
    study.set_state(v1::STUDY_STATE_PAUSED);
    return absl::OkStatus();
  };
  ASSERT_TRUE(store_->ModifyStudy(id, pause, {.request_id = "m1"}).ok());
  SetState(id, v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(store_->ModifyStudy(id, pause, {.request_id = "m1"})->state(), v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(store_->ModifyStudy(Id(NewStudy()), pause, {.request_id = "m1"}).status().code(),
            absl::StatusCode::kAlreadyExists);
  const std::int64_t cursor = Cursor(id);
  auto failed = store_->ModifyStudy(id, [](v1::Study& study) {
    study.set_message("half");
    return absl::AbortedError("no");
  });
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->GetStudy(id)->message(), "");
  EXPECT_EQ(Cursor(id), cursor);
}

TEST_P(StoreSuite, RequestIdIsBoundToItsMethod) {
  const std::int64_t id = Id(NewStudy());
  const auto edit = [&](std::int64_t study, const std::string& kind, v1::StudyState state) {
    StudyEdit extra;
    extra.request_id = "r1";
    extra.request_kind = kind;
    return store_->ModifyStudy(
        study,
        [&](v1::Study& edited) {
          edited.set_state(state);
          return absl::OkStatus();
        },
        extra);
  };
  ASSERT_TRUE(edit(id, "start", v1::STUDY_STATE_RUNNING).ok());
  for (const auto& [kind, state] :
       {std::pair("cancel", v1::STUDY_STATE_CANCELLED), std::pair("pause", v1::STUDY_STATE_PAUSED)}) {
    EXPECT_EQ(edit(id, kind, state).status().code(), absl::StatusCode::kAlreadyExists) << kind;
    EXPECT_EQ(store_->GetStudy(id)->state(), v1::STUDY_STATE_RUNNING);
  }
  EXPECT_EQ(edit(Id(NewStudy()), "start", v1::STUDY_STATE_RUNNING).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->DeleteStudy(id, "r1").code(), absl::StatusCode::kAlreadyExists);
  SetState(id, v1::STUDY_STATE_PAUSED);
  const auto again = edit(id, "start", v1::STUDY_STATE_RUNNING);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->state(), v1::STUDY_STATE_PAUSED) << "the same again changes nothing";
}

TEST_P(StoreSuite, DeleteRemovesAllAndIdsAreNotReused) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  EXPECT_EQ(store_->DeleteStudy(id).code(), absl::StatusCode::kFailedPrecondition);
  SetState(id, v1::STUDY_STATE_DONE);
  EXPECT_TRUE(store_->DeleteStudy(id, "d1").ok());
  EXPECT_TRUE(store_->DeleteStudy(id, "d1").ok());
  EXPECT_EQ(store_->DeleteStudy(id, "d2").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->GetStudy(id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ListTrials(id, 0, 10).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->GetTrial(id, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ChangeCursor(id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_GT(Id(NewStudy()), id);
}

TEST_P(StoreSuite, UsageAddsUp) {
  const std::int64_t id = Id(NewStudy());
  const auto nothing = [](v1::Study&) { return absl::OkStatus(); };
  ASSERT_TRUE(store_->ModifyStudy(id, nothing, {.add_wall_s = 1.5, .add_plan_cpu_s = 0.25}).ok());
  ASSERT_TRUE(store_->ModifyStudy(id, nothing, {.add_wall_s = 2, .add_plan_cpu_s = 0.5}).ok());
  EXPECT_EQ(store_->Usage(id)->wall_s, 3.5);
  EXPECT_EQ(store_->Usage(id)->plan_cpu_s, 0.75);
  EXPECT_EQ(store_->Usage(id)->device_s, 0);
  EXPECT_EQ(store_->Usage(id + 1).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, CursorGrowsOnlyWithChangesOfTheStudy) {
  const std::int64_t id = NewRunning();
  const std::int64_t other = NewRunning();
  const std::int64_t epoch = Register();
  const std::int64_t still = Cursor(other);
  std::int64_t last = Cursor(id);
  const auto rose = [&] {
    const std::int64_t now = Cursor(id);
    const bool risen = now > last;
    last = now;
    return risen;
  };
  Enqueue(id, "tp=1");
  EXPECT_TRUE(rose());
  Enqueue(id, "tp=1");
  EXPECT_FALSE(rose());
  const Lease lease = *Take(epoch);
  EXPECT_TRUE(rose());
  store_->AppendLog(lease.lease_id, lease.fencing_token, "x").IgnoreError();
  EXPECT_FALSE(rose());
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 1).ok());
  EXPECT_TRUE(rose());
  SetState(id, v1::STUDY_STATE_DONE);
  EXPECT_TRUE(rose());
  EXPECT_EQ(Cursor(other), still);
}

TEST_P(StoreSuite, ListsExactlyTheChangesAfterACursor) {
  const std::int64_t id = NewRunning();
  for (int i = 1; i <= 3; ++i) Enqueue(id, fmt::format("mbs={}", i));
  auto all = *store_->ChangesAfter(id, 0, 100);
  ASSERT_EQ(all.trials.size(), 3u);
  EXPECT_EQ(all.cursor, Cursor(id));
  EXPECT_EQ(all.trials.back().first, all.cursor);
  auto page = *store_->ChangesAfter(id, 0, 2);
  ASSERT_EQ(page.trials.size(), 2u);
  auto rest = *store_->ChangesAfter(id, page.trials.back().first, 2);
  ASSERT_EQ(rest.trials.size(), 1u);
  EXPECT_EQ(Number(rest.trials[0].second), 3);
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 1).ok());
  auto changed = *store_->ChangesAfter(id, all.cursor, 100);
  ASSERT_EQ(changed.trials.size(), 1u);
  EXPECT_EQ(changed.trials[0].second.state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(changed.study.name(), StudyName(id));
  EXPECT_TRUE(store_->ChangesAfter(id, Cursor(id), 100)->trials.empty());
}

// Each element has a bit more than 1000 bytes.
TEST_P(StoreSuite, ListsEndWithTheElementThatExceedsTheirBytes) {
  const std::int64_t id = NewRunning(std::string(1000, 'f'));
  for (int i = 0; i < 4; ++i) {
    NewStudy(std::string(1000, 'f'));
    Enqueue(id, fmt::format("mbs={:01000}", i));
    Join(fmt::format("{}", i), 4, "cpu", std::string(1000, 'h'));
  }
  const auto lengths = [&](const ListLimit& limit) {
    return std::vector<std::size_t>{
        store_->ListStudies(0, limit)->size(), store_->ListTrials(id, 0, limit)->size(),
        store_->ListWorkers("", limit, false)->size(), store_->ChangesAfter(id, 0, limit)->trials.size()};
  };
  EXPECT_THAT(lengths({3, 1'000'000}), testing::Each(3));
  EXPECT_THAT(lengths({10, 2'900}), testing::Each(3)) << "the third exceeds them";
  EXPECT_THAT(lengths({10, 1'000}), testing::Each(2)) << "the first alone ends no list";
  EXPECT_THAT(lengths({1, 10}), testing::Each(1));
  EXPECT_TRUE(store_->ChangesAfter(id, 0, {10, 2'900})->more);
  EXPECT_TRUE(store_->ChangesAfter(id, 0, 4)->more) << "not known";
  EXPECT_FALSE(store_->ChangesAfter(id, 0, 5)->more);
}

TEST_P(StoreSuite, RejectedWriteIsNotAStorageFailure) {
  EXPECT_TRUE(store_->Health().ok());
  EXPECT_FALSE(store_->DeleteStudy(99).ok());
  EXPECT_FALSE(store_->AppendLog("lease-no", 1, "x").ok());
  EXPECT_TRUE(store_->Health().ok());
}

TEST_P(StoreSuite, ListenerIsOnlyCalledForChanges) {
  int heard = 0;
  store_->OnChange([&](const StoreChange&) { ++heard; });
  const std::int64_t id = NewRunning();
  EXPECT_EQ(heard, 2);
  Enqueue(id, "tp=1");
  EXPECT_EQ(heard, 3);
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  EXPECT_EQ(heard, 3);
  const Lease lease = *Take(epoch);
  EXPECT_EQ(heard, 4);
  EXPECT_FALSE(Take(epoch));
  store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 1, 10).IgnoreError();
  EXPECT_EQ(store_->ExpireLeases(205)->size(), 0u);
  EXPECT_EQ(heard, 4);
  EXPECT_EQ(store_->ExpireLeases(250)->size(), 1u);
  EXPECT_EQ(heard, 5);
}

}  // namespace autocfg::server
