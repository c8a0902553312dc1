// Replaces NVIDIA's management library: the same C functions over GPUs that the environment describes, so
// that GPU handling is tested on machines without GPUs. AUTOCFG_FAKE_GPUS holds the GPUs, separated by ';';
// each is a list of KEY=VALUE, separated by ',':
//   name, uuid, total, used (bytes), pid (the process that uses them), mig (1: on), nvlinks, board (GPUs of
//   one board share a PCIe switch; others are across sockets), busy (memory queries until nothing is in
//   use), reserved (bytes that the driver reserves in addition to those in use), old (1: the driver lacks
//   the second version of the memory query).
// AUTOCFG_FAKE_NVML_INIT: the return value of the init function, if not 0. Function signatures follow NVML's
// documentation.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3,
              kInsufficientSize = 7, kVersionMismatch = 25;

struct Gpu {
  std::map<std::string, std::string> fields;
  int memory_questions = 0;

  long long Number(const char* key, long long otherwise = 0) const {
    const auto field = fields.find(key);
    return field == fields.end() ? otherwise : std::atoll(field->second.c_str());
  }
  std::string Text(const char* key) const {
    const auto field = fields.find(key);
    return field == fields.end() ? "" : field->second;
  }
};

std::vector<Gpu> gpus;
bool started = false;

std::vector<Gpu> Described() {
  std::vector<Gpu> described;
  const char* text = std::getenv("AUTOCFG_FAKE_GPUS");
  std::istringstream all(text != nullptr ? text : "");
  for (std::string one; std::getline(all, one, ';');) {
    Gpu gpu;
    std::istringstream words(one);
    for (std::string word; std::getline(words, word, ',');) {
      const auto equals = word.find('=');
      gpu.fields[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
    }
    described.push_back(gpu);
  }
  return described;
}

int CopyText(const std::string& text, char* out, unsigned length) {
  if (!started) return kUninitialized;
  if (text.empty()) return kNotSupported;
  if (text.size() + 1 > length) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

extern "C" {

struct nvmlMemory {
  unsigned long long total, free, used;
};
struct nvmlMemory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct nvmlProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2() {
  const char* result = std::getenv("AUTOCFG_FAKE_NVML_INIT");
  if (result != nullptr && std::atoi(result) != 0) return std::atoi(result);
  gpus = Described();
  started = true;
  return kSuccess;
}
int nvmlShutdown() {
  started = false;
  return kSuccess;
}
const char* nvmlErrorString(int result) { return result == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return CopyText("570.86.15", version, length);
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(gpus.size());
  return started ? kSuccess : kUninitialized;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** handle) {
  if (!started) return kUninitialized;
  if (index >= gpus.size()) return kInvalidArgument;
  *handle = &gpus[index];
  return kSuccess;
}
int nvmlDeviceGetName(Gpu* gpu, char* name, unsigned length) {
  return CopyText(gpu->Text("name"), name, length);
}
int nvmlDeviceGetUUID(Gpu* gpu, char* uuid, unsigned length) {
  return CopyText(gpu->Text("uuid"), uuid, length);
}
int nvmlDeviceGetMemoryInfo(Gpu* gpu, nvmlMemory* memory) {
  if (gpu->Number("total") == 0) return kNotSupported;
  const long long busy = gpu->Number("busy", -1);
  const bool over = busy >= 0 && gpu->memory_questions++ >= busy;
  memory->total = static_cast<unsigned long long>(gpu->Number("total"));
  memory->used = (over ? 0 : static_cast<unsigned long long>(gpu->Number("used"))) +
                 static_cast<unsigned long long>(gpu->Number("reserved"));
  memory->free = memory->total - memory->used;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo_v2(Gpu* gpu, nvmlMemory2* memory) {
  if (gpu->Number("old") != 0) return kNotSupported;
  if (memory->version != (40u | 2u << 24)) return kVersionMismatch;
  nvmlMemory first{};
  if (const int result = nvmlDeviceGetMemoryInfo(gpu, &first); result != kSuccess) return result;
  memory->total = first.total;
  memory->reserved = static_cast<unsigned long long>(gpu->Number("reserved"));
  memory->free = first.free;
  memory->used = first.used - memory->reserved;
  return kSuccess;
}
int nvmlDeviceGetMigMode(Gpu* gpu, unsigned* current, unsigned* pending) {
  if (gpu->Text("mig").empty()) return kNotSupported;
  *current = *pending = static_cast<unsigned>(gpu->Number("mig"));
  return kSuccess;
}
int nvmlDeviceGetTopologyCommonAncestor(Gpu* a, Gpu* b, int* level) {
  *level = a->Text("board") == b->Text("board") ? 10 : 50;
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(Gpu* gpu, unsigned link, int* active) {
  if (gpu->Number("nvlinks") == 0) return kNotSupported;
  if (link >= 18) return kInvalidArgument;
  *active = link < static_cast<unsigned>(gpu->Number("nvlinks")) ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu* gpu, unsigned* count, nvmlProcess* processes) {
  const unsigned room = *count;
  *count = gpu->Number("pid") != 0 ? 1 : 0;
  if (*count > room) return kInsufficientSize;
  if (*count == 1)
    *processes = {static_cast<unsigned>(gpu->Number("pid")),
                  static_cast<unsigned long long>(gpu->Number("used")), ~0u, ~0u};
  return kSuccess;
}

}  // extern "C"
