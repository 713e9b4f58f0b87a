// collective.h over Communicator.
#include "diji/collective.h"

#include "collective/bootstrap.h"
#include "collective/regroup.h"
#include "runtime/c_error.h"

#include <algorithm>
#include <future>
#include <span>
#include <string>
#include <vector>

struct diji_comm {
  std::unique_ptr<diji::collective::Communicator> communicator;
  std::string transports;
};

struct diji_creation {
  std::future<diji::Result<std::unique_ptr<diji::collective::Communicator>>> made;
};

struct diji_work {
  std::shared_ptr<diji::collective::Work> work;
};

struct diji_prepared {
  diji::collective::Communicator* communicator;
  std::unique_ptr<diji::collective::PreparedCall> call;
};

struct diji_memory {
  diji::collective::Allocation allocation;
};

namespace {

using diji::ErrorCode;
using diji::fail;
using diji::Result;
using diji::c_api::guarded;
using diji::c_api::usage;
using diji::collective::Call;
using diji::collective::Communicator;
using diji::collective::CommunicatorOptions;
using diji::collective::kTimeoutMaxUs;

static_assert(static_cast<int>(diji::collective::Operation::receive) == DIJI_RECV &&
                  static_cast<int>(diji::collective::Reduction::logical_xor) == DIJI_REDUCE_LXOR &&
                  static_cast<int>(diji::collective::ElementType::f8e5m2) == DIJI_F8E5M2,
              "operations, reductions and element types stand in one order on both sides");

Result<CommunicatorOptions> options_of(const diji_comm_options* given) {
  CommunicatorOptions options{.timeout_us = -1, .warning_us = -1};
  if (given == nullptr) return options;
  if (given->struct_size < sizeof(diji_comm_options))
    return usage("diji_comm_options: struct_size is too small");
  if (given->timeout_us < 0 || given->warn_after_us < 0) return usage("diji_comm_options: a time below 0");
  if (given->error_mode != DIJI_ERRORS_RETURN && given->error_mode != DIJI_ERRORS_ABORT)
    return fail(ErrorCode::usage, "diji_comm_options: {} is no error mode",
                static_cast<int>(given->error_mode));
  if (given->timeout_us > 0) options.timeout_us = std::min(given->timeout_us, kTimeoutMaxUs);
  if (given->warn_after_us > 0) options.warning_us = given->warn_after_us;
  options.on_failure = [callback = given->on_failure, context = given->context,
                        ends = given->error_mode == DIJI_ERRORS_ABORT](const diji::Error& error) {
    if (callback != nullptr) callback(context, error.message.c_str());
    if (ends) diji::collective::end_the_process(error);
  };
  return options;
}

Result<std::unique_ptr<diji_comm>> comm_of(Result<std::unique_ptr<Communicator>> made) {
  auto communicator = TRY(std::move(made));
  if (!communicator) return std::unique_ptr<diji_comm>();  // no part for this rank
  auto comm = std::make_unique<diji_comm>();
  comm->transports = communicator->transports();
  comm->communicator = std::move(communicator);
  return comm;
}

// A list of one entry a rank, where there is one.
std::span<const std::int64_t> list_of(const std::int64_t* list, int world) {
  return list == nullptr ? std::span<const std::int64_t>() : std::span(list, static_cast<std::size_t>(world));
}

Result<Call> call_of(const diji_call& given, int world) {
  if (given.struct_size < sizeof(diji_call)) return usage("diji_call: struct_size is too small");
  const auto within = [](auto value, int count) {
    return static_cast<int>(value) >= 0 && static_cast<int>(value) < count;
  };
  if (!within(given.operation, diji::collective::kOperationCount))
    return fail(ErrorCode::usage, "diji_call: {} is no operation", static_cast<int>(given.operation));
  if (!within(given.reduction, diji::collective::kReductionCount))
    return fail(ErrorCode::usage, "diji_call: {} is no reduction", static_cast<int>(given.reduction));
  if (!within(given.dtype, diji::collective::kElementTypeCount))
    return fail(ErrorCode::usage, "diji_call: {} is no dtype", static_cast<int>(given.dtype));
  if (given.timeout_us < 0) return usage("diji_call: a time below 0");
  return Call{.operation = static_cast<diji::collective::Operation>(given.operation),
              .input = given.input,
              .output = given.output,
              .count = given.count,
              .type = static_cast<diji::collective::ElementType>(given.dtype),
              .reduction = static_cast<diji::collective::Reduction>(given.reduction),
              .factor = given.factor,
              .root = given.root,
              .peer = given.peer,
              .counts = list_of(given.counts, world),
              .displacements = list_of(given.displacements, world),
              .receive_counts = list_of(given.receive_counts, world),
              .receive_displacements = list_of(given.receive_displacements, world),
              .exact = given.exact != 0,
              .algorithm = given.algorithm == nullptr ? std::string_view() : given.algorithm,
              .timeout_us = given.timeout_us == 0 ? -1 : std::min(given.timeout_us, kTimeoutMaxUs)};
}

Result<std::vector<Call>> calls_of(std::string_view function, const diji_comm* comm, const diji_call* calls,
                                   std::size_t count) {
  if (comm == nullptr || (calls == nullptr && count > 0))
    return fail(ErrorCode::usage, "{}: a null pointer", function);
  std::vector<Call> made;
  for (const diji_call& given : std::span(calls, count))
    made.push_back(TRY(call_of(given, comm->communicator->world())));
  return made;
}

// One collective call, or a group.
bool is_single(std::span<const Call> calls) {
  return calls.size() == 1 && !diji::collective::is_point_to_point(calls.front().operation);
}

template <typename Make>
diji_status_code make_comm(std::string_view function, const diji_comm* comm, diji_comm** made,
                           const Make& make) {
  return guarded([&]() -> Result<void> {
    if (comm == nullptr || made == nullptr) return fail(ErrorCode::usage, "{}: a null pointer", function);
    *made = TRY(comm_of(make(*comm->communicator))).release();
    return {};
  });
}

}  // namespace

diji_status_code diji_comm_create(const diji_comm_options* options, diji_comm** comm) {
  return guarded([&]() -> Result<void> {
    if (comm == nullptr) return usage("diji_comm_create: a null pointer");
    *comm = TRY(comm_of(diji::collective::communicator_of_job(TRY(options_of(options))))).release();
    return {};
  });
}

diji_status_code diji_comm_start_create(const diji_comm_options* options, diji_creation** creation) {
  return guarded([&]() -> Result<void> {
    if (creation == nullptr) return usage("diji_comm_start_create: a null pointer");
    auto started = std::make_unique<diji_creation>();
    started->made = std::async(std::launch::async, [given = TRY(options_of(options))] {
      return diji::with_host_memory([&] { return diji::collective::communicator_of_job(given); });
    });
    *creation = started.release();
    return {};
  });
}

int diji_creation_done(const diji_creation* creation) {
  return creation != nullptr && creation->made.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

diji_status_code diji_creation_wait(diji_creation* creation, diji_comm** comm) {
  return guarded([&]() -> Result<void> {
    if (creation == nullptr || comm == nullptr) return usage("diji_creation_wait: a null pointer");
    const std::unique_ptr<diji_creation> owned(creation);
    *comm = TRY(comm_of(creation->made.get())).release();
    return {};
  });
}

void diji_creation_free(diji_creation* creation) { delete creation; }

void diji_comm_free(diji_comm* comm) { delete comm; }
int32_t diji_comm_rank(const diji_comm* comm) { return comm == nullptr ? -1 : comm->communicator->rank(); }
int32_t diji_comm_world(const diji_comm* comm) { return comm == nullptr ? -1 : comm->communicator->world(); }
const char* diji_comm_transports(const diji_comm* comm) {
  return comm == nullptr ? "" : comm->transports.c_str();
}

diji_status_code diji_comm_split(diji_comm* comm, int32_t color, int32_t key, diji_comm** part) {
  return make_comm("diji_comm_split", comm, part,
                   [&](Communicator& parent) { return diji::collective::split(parent, color, key); });
}

diji_status_code diji_comm_dup(diji_comm* comm, diji_comm** copy) {
  return make_comm("diji_comm_dup", comm, copy,
                   [](Communicator& parent) { return diji::collective::dup(parent); });
}

diji_status_code diji_comm_shrink(diji_comm* comm, int64_t timeout_us, diji_comm** rest) {
  return make_comm("diji_comm_shrink", comm, rest,
                   [&](Communicator& parent) -> Result<std::unique_ptr<Communicator>> {
                     if (timeout_us < 0) return usage("diji_comm_shrink: a time below 0");
                     const std::int64_t us = timeout_us == 0 ? parent.options().timeout_us : timeout_us;
                     return diji::collective::shrink(parent, std::min(us, kTimeoutMaxUs));
                   });
}

void diji_comm_abort(diji_comm* comm, const char* why) {
  if (comm != nullptr) comm->communicator->abort(why == nullptr ? "" : why);
}

diji_status_code diji_comm_allocate(diji_comm* comm, int64_t bytes, diji_memory** memory) {
  return guarded([&]() -> Result<void> {
    if (comm == nullptr || memory == nullptr) return usage("diji_comm_allocate: a null pointer");
    auto owned = std::make_unique<diji_memory>();
    owned->allocation = TRY(comm->communicator->allocate(bytes));
    *memory = owned.release();
    return {};
  });
}

void* diji_memory_data(const diji_memory* memory) {
  return memory == nullptr ? nullptr : memory->allocation.data();
}

void diji_memory_free(diji_memory* memory) { delete memory; }

diji_status_code diji_run(diji_comm* comm, const diji_call* calls, size_t call_count) {
  return guarded([&]() -> Result<void> {
    const std::vector<Call> made = TRY(calls_of("diji_run", comm, calls, call_count));
    Communicator& communicator = *comm->communicator;
    return is_single(made) ? communicator.run(made.front()) : communicator.run_group(made);
  });
}

diji_status_code diji_start(diji_comm* comm, const diji_call* calls, size_t call_count, diji_work** work) {
  return guarded([&]() -> Result<void> {
    if (work == nullptr) return usage("diji_start: a null pointer");
    const std::vector<Call> made = TRY(calls_of("diji_start", comm, calls, call_count));
    auto handle = std::make_unique<diji_work>();
    Communicator& communicator = *comm->communicator;
    handle->work = TRY(is_single(made) ? communicator.start(made.front()) : communicator.start_group(made));
    *work = handle.release();
    return {};
  });
}

int diji_work_done(const diji_work* work) { return work != nullptr && work->work->done(); }

diji_status_code diji_work_wait(const diji_work* work, int64_t timeout_us) {
  return guarded([&]() -> Result<void> {
    if (work == nullptr) return usage("diji_work_wait: a null pointer");
    return work->work->wait(std::min(timeout_us, kTimeoutMaxUs));
  });
}

void diji_work_free(diji_work* work) { delete work; }

diji_status_code diji_prepare(diji_comm* comm, const diji_call* call, diji_prepared** prepared) {
  return guarded([&]() -> Result<void> {
    if (call == nullptr || prepared == nullptr) return usage("diji_prepare: a null pointer");
    const std::vector<Call> made = TRY(calls_of("diji_prepare", comm, call, 1));
    auto handle = std::make_unique<diji_prepared>();
    handle->communicator = comm->communicator.get();
    handle->call = TRY(handle->communicator->prepare(made.front()));
    *prepared = handle.release();
    return {};
  });
}

diji_status_code diji_prepared_run(diji_prepared* prepared) {
  return guarded([&]() -> Result<void> {
    if (prepared == nullptr) return usage("diji_prepared_run: a null pointer");
    return prepared->communicator->run(*prepared->call);
  });
}

diji_status_code diji_prepared_start(diji_prepared* prepared, diji_work** work) {
  return guarded([&]() -> Result<void> {
    if (prepared == nullptr || work == nullptr) return usage("diji_prepared_start: a null pointer");
    auto handle = std::make_unique<diji_work>();
    handle->work = TRY(prepared->communicator->start(*prepared->call));
    *work = handle.release();
    return {};
  });
}

void diji_prepared_free(diji_prepared* prepared) { delete prepared; }
