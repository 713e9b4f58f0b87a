// PMIx's client library, loaded when a launcher asks for it. The few types are those of the PMIx standard,
// whose binary interface is the same in versions 2 to 5; arrays of them, whose elements may grow, are not
// used.
#include "base/log.h"
#include "collective/clock.h"
#include "collective/key_values.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <thread>
#include <type_traits>

namespace diji::collective {
namespace {

constexpr int kSuccess = 0;
constexpr int kTimeout = -24;
constexpr int kUnreachable = -25;
constexpr int kNotFound = -46;
constexpr std::uint32_t kWholeJob = UINT32_MAX - 1;  // PMIX_RANK_WILDCARD
constexpr std::uint16_t kString = 3;
constexpr std::uint16_t kUint32 = 14;
constexpr std::uint8_t kGlobal = 3;
constexpr const char* kKey = "diji.rendezvous";
constexpr std::int64_t kGoodbyeUs = 5'000'000;

struct Process {
  std::array<char, 256> job;
  std::uint32_t rank;
};
struct Value {
  std::uint16_t type;
  union {
    const char* string;
    std::uint32_t uint32;
    std::array<std::uint64_t, 6> room;  ///< as large as any of the standard's
  } data;
};
static_assert(offsetof(Value, data) == 8 && sizeof(Process) == 260);

struct Library {
  int (*init)(Process*, void* info, std::size_t count);
  int (*finalize)(const void* info, std::size_t count);
  int (*put)(std::uint8_t scope, const char* key, Value*);
  int (*commit)();
  int (*get)(const Process*, const char* key, const void* info, std::size_t count, Value**);
  const char* (*error_string)(int);

  std::unexpected<Error> error(std::string_view doing, int status) const {
    return fail(ErrorCode::io, "PMIx, {}: {}", doing, error_string(status));
  }
};

Result<Library> load() {
  void* handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);  // for good: MPI may use it too
  if (handle == nullptr) {
    return fail(ErrorCode::no_device,
                "this rank was started by a launcher with PMIx, but its library is not here: {} (Debian: "
                "libpmix2; elsewhere set LD_LIBRARY_PATH; DIJI_LAUNCHER names another way to start)",
                dlerror());
  }
  Library library{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    void* symbol = dlsym(handle, name);
    if (symbol == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find(library.init, "PMIx_Init");
  find(library.finalize, "PMIx_Finalize");
  find(library.put, "PMIx_Put");
  find(library.commit, "PMIx_Commit");
  find(library.get, "PMIx_Get");
  find(library.error_string, "PMIx_Error_string");
  if (!missing.empty()) return fail(ErrorCode::no_device, "libpmix.so.2 has no {}", missing);
  return library;
}

// Calls of PMIx end when its server answers, however long that takes. So a thread makes them, which is left
// to itself at the deadline: `work` owns all that it touches.
template <typename Work>
auto within(std::int64_t deadline_us, std::string_view doing, Work work) -> std::invoke_result_t<Work> {
  std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  const auto left = std::chrono::microseconds(std::max<std::int64_t>(deadline_us - now_us(), 0));
  if (answer.wait_for(left) == std::future_status::ready) return answer.get();
  return fail(ErrorCode::deadline, "PMIx, {}: the launcher did not answer in time", doing);
}

struct Session {
  Library library;
  Process self{};
  ~Session() {
    static_cast<void>(within(now_us() + kGoodbyeUs, "finalizing", [library = library]() -> Result<void> {
      library.finalize(nullptr, 0);
      return {};
    }));
  }
};

// The value of `process` under `key`, which may not be there yet: servers wait some seconds for it.
Result<Value> get(const Library& library, const Process& process, const char* key, std::int64_t deadline_us) {
  int status = kNotFound;
  while (now_us() < deadline_us) {
    Value* value = nullptr;
    status = library.get(&process, key, nullptr, 0, &value);
    if (status == kSuccess && value != nullptr)
      return *value;  // the library's own memory, a line: left to it
    if (status != kTimeout && status != kNotFound)
      return library.error(fmt::format("getting {}", key), status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fail(ErrorCode::deadline, "PMIx: nobody left {} in time", key);
}

Result<std::shared_ptr<Session>> open_session(std::int64_t deadline_us) {
  const Library library = TRY(load());
  return within(deadline_us, "initializing", [library]() -> Result<std::shared_ptr<Session>> {
    Process self{};
    const int status = library.init(&self, nullptr, 0);
    if (status == kUnreachable) return nullptr;
    if (status != kSuccess) return library.error("initializing", status);
    auto session = std::make_shared<Session>();
    session->library = library;
    session->self = self;
    return session;
  });
}

}  // namespace

Result<KeyValues> key_values_of_pmix(std::int64_t deadline_us) {
  const std::shared_ptr<Session> session = TRY(open_session(deadline_us));
  if (!session) {
    warn("a launcher with PMIx started this rank, but its server does not answer: a job of one rank");
    return KeyValues{};
  }
  KeyValues values;
  values.session = session;
  values.rank = static_cast<int>(session->self.rank);
  values.world = TRY(within(deadline_us, "the size of the job", [session, deadline_us]() -> Result<int> {
    Process job = session->self;
    job.rank = kWholeJob;
    const Value size = TRY(get(session->library, job, "pmix.job.size", deadline_us));
    if (size.type != kUint32)
      return fail(ErrorCode::corrupted, "PMIx: the job's size has type {}", size.type);
    return static_cast<int>(size.data.uint32);
  }));
  values.leave = [session, deadline_us](const std::string& line) {
    return within(deadline_us, "leaving the rendezvous", [session, line]() -> Result<void> {
      const Library& library = session->library;
      Value value{.type = kString, .data = {.string = line.c_str()}};
      int status = library.put(kGlobal, kKey, &value);
      if (status == kSuccess) status = library.commit();
      if (status != kSuccess) return library.error("leaving the rendezvous", status);
      return {};
    });
  };
  values.find = [session, deadline_us]() -> Result<std::string> {
    auto line = within(deadline_us, "finding rank 0", [session, deadline_us]() -> Result<std::string> {
      Process first = session->self;
      first.rank = 0;
      const Value left = TRY(get(session->library, first, kKey, deadline_us));
      if (left.type != kString || left.data.string == nullptr)
        return fail(ErrorCode::corrupted, "PMIx: what rank 0 left has type {}", left.type);
      return std::string(left.data.string, strnlen(left.data.string, kLineMax));
    });
    if (line || line.error().code != ErrorCode::deadline) return line;
    auto error = fail(ErrorCode::deadline, "rank 0 never arrived: it left no address at the launcher");
    error.error().peer.rank = 0;
    error.error().peer.missing = {0};
    return error;
  };
  return values;
}

}  // namespace diji::collective
