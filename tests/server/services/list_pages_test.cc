// Lists of elements of any size, over the wire: every page fits what a gRPC client accepts by default, and
// pages follow each other without a gap. The elements are put into the database directly, as an earlier
// version might have stored them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/convert/device_convert.h"
#include "proto/rpc/channel.h"
#include "server/studies/search_problem.h"
#include "tests/server/services/service_fixtures.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

constexpr std::size_t kPageLimit = std::size_t{4} << 20;  // what gRPC clients accept by default
constexpr std::size_t kMegabyte = 1'000'000;

class ListPagesTest : public CoordinatorFixture {
 protected:
  // Fills the database, then starts the coordinator on it.
  void OpenWith(const std::function<void(Store&)>& fill) {
    {
      auto store = OpenSqliteStore(dir_.File("autocfg.db"));
      ASSERT_TRUE(store.ok()) << store.status();
      fill(**store);
    }
    Open();
    // gRPC's default, but for the limit on a message.
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
    wide_ = grpc::CreateCustomChannel(coordinator_->address(), grpc::InsecureChannelCredentials(), arguments);
  }
  void TearDown() override {
    wide_.reset();
    CoordinatorFixture::TearDown();
  }

  // Reads the whole list, and returns the names on each page. `large`: an element exceeds a page.
  template <typename Service, typename Request, typename Response, typename Items>
  std::vector<std::vector<std::string>> Pages(grpc::Status (Service::Stub::*method)(grpc::ClientContext*,
                                                                                    const Request&,
                                                                                    Response*),
                                              Request request, Items items, bool large = false) {
    const auto stub = Service::NewStub(large ? wide_ : channel_);
    std::vector<std::vector<std::string>> pages;
    do {
      Response response;
      const grpc::Status status = Call(stub, method, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (!status.ok()) return pages;
      auto& names = pages.emplace_back();
      for (const auto& item : (response.*items)()) names.push_back(item.name());
      EXPECT_TRUE(names.size() == 1 || response.ByteSizeLong() <= kPageLimit) << response.ByteSizeLong();
      EXPECT_FALSE(names.empty());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty() && pages.size() < 1000);
    return pages;
  }
  auto WorkerPages(int page_size, bool large = false) {
    v1::ListWorkersRequest request;
    request.set_page_size(page_size);
    const google::protobuf::RepeatedPtrField<v1::Worker>& (v1::ListWorkersResponse::*items)() const =
        &v1::ListWorkersResponse::workers;
    return Pages<v1::WorkerService>(&v1::WorkerService::Stub::ListWorkers, request, items, large);
  }
  auto StudyPages(int page_size, bool large = false) {
    v1::ListStudiesRequest request;
    request.set_page_size(page_size);
    const google::protobuf::RepeatedPtrField<v1::Study>& (v1::ListStudiesResponse::*items)() const =
        &v1::ListStudiesResponse::studies;
    return Pages<v1::StudyService>(&v1::StudyService::Stub::ListStudies, request, items, large);
  }
  auto TrialPages(int page_size, bool large = false) {
    v1::ListTrialsRequest request;
    request.set_parent("studies/1");
    request.set_page_size(page_size);
    const google::protobuf::RepeatedPtrField<v1::Trial>& (v1::ListTrialsResponse::*items)() const =
        &v1::ListTrialsResponse::trials;
    return Pages<v1::StudyService>(&v1::StudyService::Stub::ListTrials, request, items, large);
  }

  // Elements whose largest field has this many bytes.
  static void AddWorker(Store& store, std::size_t bytes) {
    v1::RegisterWorkerRequest request;
    static int count = 0;
    request.set_worker(fmt::format("workers/{:04}", ++count));
    request.set_boot_id("boot");
    request.mutable_inventory()->set_slots(1);
    request.mutable_inventory()->set_device_kind("cpu");
    request.mutable_inventory()->set_device_fingerprint(std::string(bytes, 'x'));
    ASSERT_TRUE(store.RegisterWorker(request, 1).ok());
  }
  static void AddStudy(Store& store, std::size_t bytes) {
    v1::Study study;
    study.set_fingerprint("f");
    study.mutable_spec()->mutable_model()->set_name(std::string(bytes, 'x'));
    ASSERT_TRUE(store.CreateStudy("", study, 1).ok());
  }
  static void AddTrial(Store& store, std::size_t bytes) {
    v1::Trial trial;
    static int count = 0;
    trial.set_plan_text(fmt::format("plan {}", ++count));
    trial.mutable_plan()->set_schedule(std::string(bytes, 'x'));
    v1::Job job;
    job.set_ranks(1);
    job.mutable_train()->set_steps(1);
    ASSERT_TRUE(store.EnqueueTrial(1, trial, job, 1).ok());
  }

  static std::vector<std::size_t> Sizes(const std::vector<std::vector<std::string>>& pages) {
    std::vector<std::size_t> sizes;
    for (const auto& page : pages) sizes.push_back(page.size());
    return sizes;
  }
  static std::vector<std::string> All(const std::vector<std::vector<std::string>>& pages) {
    std::vector<std::string> all;
    for (const auto& page : pages) all.insert(all.end(), page.begin(), page.end());
    return all;
  }

  std::shared_ptr<grpc::Channel> wide_;
};

// Elements of each list: more than one page of bytes, small ones between, and one that exceeds a page.
const std::vector<std::size_t> kSizes = {1'600'000, 1'600'000, 1'600'000, 1,         1,         1, 393'000,
                                         393'000,   393'000,   1'600'000, 5'000'000, 1'600'000, 1};
using Sizes = std::vector<std::size_t>;

TEST_F(ListPagesTest, WorkersWithLargeInventoriesAreListed) {
  std::vector<std::string> names;
  OpenWith([&](Store& store) {
    for (const std::size_t size : kSizes) AddWorker(store, size);
    const auto stored = store.ListWorkers("", 100, false);
    ASSERT_TRUE(stored.ok()) << stored.status();
    for (const auto& worker : *stored) names.push_back(worker.session.worker);
  });
  ASSERT_EQ(names.size(), kSizes.size());
  const auto pages = WorkerPages(200, /*large=*/true);
  EXPECT_THAT(Sizes(pages), testing::ElementsAre(2, 7, 1, 1, 2));
  EXPECT_EQ(All(pages), names);
  const auto small = WorkerPages(2, true);
  EXPECT_THAT(Sizes(small), testing::ElementsAre(2, 2, 2, 2, 2, 1, 2));
  EXPECT_EQ(All(small), names);
}

TEST_F(ListPagesTest, StudiesWithLargeSpecificationsAreListed) {
  std::vector<std::string> names;
  OpenWith([&](Store& store) {
    for (const std::size_t size : kSizes) AddStudy(store, size);
    const auto stored = store.ListStudies(0, 100);
    ASSERT_TRUE(stored.ok()) << stored.status();
    for (const auto& study : *stored) names.push_back(study.name());
  });
  ASSERT_EQ(names.size(), kSizes.size());
  const auto pages = StudyPages(200, /*large=*/true);
  EXPECT_THAT(Sizes(pages), testing::ElementsAre(2, 1, 7, 2, 1)) << "newest first";
  EXPECT_EQ(All(pages), names);
  EXPECT_EQ(All(StudyPages(3, true)), names);
}

TEST_F(ListPagesTest, LargeTrialsAreListed) {
  std::vector<std::string> names;
  OpenWith([&](Store& store) {
    AddStudy(store, 1);
    for (const std::size_t size : kSizes) AddTrial(store, size);
    const auto stored = store.ListTrials(1, 0, 100);
    ASSERT_TRUE(stored.ok()) << stored.status();
    for (const auto& trial : *stored) names.push_back(trial.name());
  });
  ASSERT_EQ(names.size(), kSizes.size());
  const auto pages = TrialPages(200, /*large=*/true);
  EXPECT_THAT(Sizes(pages), testing::ElementsAre(2, 7, 1, 1, 2));
  EXPECT_EQ(All(pages), names);
  EXPECT_EQ(All(TrialPages(3, true)), names);
}

// A client that knows only gRPC's own limit reads every list of elements below it.
TEST_F(ListPagesTest, FitWhatAClientAcceptsByDefault) {
  OpenWith([&](Store& store) {
    AddStudy(store, 1);
    for (int i = 0; i < 30; ++i) {
      AddWorker(store, 4 * kMegabyte / 10);
      AddStudy(store, 4 * kMegabyte / 10);
      AddTrial(store, 4 * kMegabyte / 10);
    }
  });
  EXPECT_EQ(All(WorkerPages(200)).size(), 30u);
  EXPECT_EQ(All(StudyPages(200)).size(), 31u);
  EXPECT_EQ(All(TrialPages(200)).size(), 30u);
  EXPECT_EQ(WorkerPages(200).size(), 3u);
  EXPECT_EQ(WorkerPages(0).size(), 3u);
}

TEST_F(ListPagesTest, WatchersSeeEveryLargeTrial) {
  OpenWith([&](Store& store) {
    AddStudy(store, 1);
    for (int i = 0; i < 30; ++i) AddTrial(store, 4 * kMegabyte / 10);
    ASSERT_TRUE(SetStudyState(store, 1, v1::STUDY_STATE_CANCELLED).ok());
  });
  v1::WatchStudyRequest request;
  request.set_name("studies/1");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = studies_->WatchStudy(&context, request);
  std::vector<std::string> seen;
  for (v1::StudyEvent event; reader->Read(&event);) {
    if (event.has_trial()) seen.push_back(event.trial().name());
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end()) << "each once";
  EXPECT_EQ(seen.size(), 30u);
}

TEST_F(ListPagesTest, LargeInventoriesAreRefused) {
  Open();
  v1::RegisterWorkerRequest request;
  request.set_worker("workers/a");
  request.set_boot_id("boot");
  v1::Inventory& inventory = *request.mutable_inventory();
  inventory.set_slots(1);
  inventory.set_device_kind("cuda");
  while (inventory.ByteSizeLong() <= kMostInventoryBytes) {
    v1::Gpu& gpu = *inventory.add_gpus();
    gpu.set_left_out(std::string(1000, 'x'));
  }
  v1::RegisterWorkerResponse response;
  const auto refused = Call(workers_, &v1::WorkerService::Stub::RegisterWorker, request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("the limit is 65536 bytes"));
  inventory.mutable_gpus()->RemoveLast();
  const auto taken = Call(workers_, &v1::WorkerService::Stub::RegisterWorker, request, &response);
  EXPECT_TRUE(taken.ok()) << taken.error_message();
  // Fields that this version does not know are stored too, and count.
  inventory.GetReflection()
      ->MutableUnknownFields(&inventory)
      ->AddLengthDelimited(1000, std::string(1000, 'x'));
  EXPECT_EQ(Call(workers_, &v1::WorkerService::Stub::RegisterWorker, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ListPagesTest, LargeSpecificationsAreRefused) {
  Open();
  v1::SearchSpec spec = SmallSpec();
  const v1::NodeGroup group = spec.cluster().groups(0);
  const std::size_t groups = kMostSpecBytes / group.ByteSizeLong();
  for (std::size_t i = 0; i < groups; ++i) *spec.mutable_cluster()->add_groups() = group;
  const grpc::Status refused = CreateStatus(spec);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("the limit is 262144"));
  EXPECT_THAT(refused.error_message(), testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace autocfg::server
