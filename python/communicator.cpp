// Buffers are arrays' memory; whatever is in flight keeps the arrays.
#include "python/communicator.h"

#include "collective/bootstrap.h"
#include "collective/regroup.h"
#include "python/arrays.h"
#include "python/raise.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace diji::python {
namespace nb = nanobind;
namespace {

using collective::Call;
using Counts = std::optional<std::vector<std::int64_t>>;

/// A call's arrays. Input may be a copy of the user's, where that was not row-major.
struct Buffers {
  std::optional<Input> input;
  std::optional<Output> output;
};

struct Handle {
  std::shared_ptr<collective::Work> work;
};

/// What is in flight borrows arrays that the user may have dropped.
struct InFlight {
  std::shared_ptr<collective::Work> work;
  Buffers buffers;
};

struct Comm {
  explicit Comm(std::unique_ptr<collective::Communicator> made) : communicator(std::move(made)) {}
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm() { close(); }
  void close() {
    // Taken away first: other threads run while this one waits.
    auto closing = std::exchange(communicator, nullptr);
    const std::vector<InFlight> flying = std::exchange(in_flight, {});
    if (closing == nullptr) return;
    const nb::gil_scoped_release released;
    for (const InFlight& one : flying) static_cast<void>(one.work->wait());
    closing.reset();  // where another thread is in a call, it ends the communicator
  }
  std::shared_ptr<collective::Communicator> communicator;  ///< null: closed
  std::vector<InFlight> in_flight;
};

nb::object wrapped(Result<std::unique_ptr<collective::Communicator>> made) {
  if (!made) return raise(made.error());
  if (*made == nullptr) return nb::none();
  return nb::cast(new Comm(*std::move(made)), nb::rv_policy::take_ownership);
}

nb::object closed() { return raise(ErrorCode::usage, "the communicator is closed"); }

nb::object create(std::int64_t timeout_us, std::int64_t warning_us) {
  return wrapped(without_gil(
      [&] { return collective::communicator_of_job({.timeout_us = timeout_us, .warning_us = warning_us}); }));
}

/// As Python names it: words, and arrays that may be None.
struct Request {
  std::string operation;
  nb::handle input;
  nb::handle output;
  std::int64_t count = 0;
  std::string dtype;  ///< "": the arrays'
  std::string reduction;
  double factor = 1;
  int root = 0;
  int peer = -1;
  Counts counts;
  Counts receive_counts;
  bool exact = false;
  std::string algorithm;
  std::int64_t timeout_us = -1;
};

Result<Buffers> buffers_of(const Request& request) {
  Buffers buffers;
  if (!request.input.is_none()) buffers.input = TRY(input_of("input", request.input));
  if (!request.output.is_none()) buffers.output = TRY(output_of("out", request.output));
  if (buffers.input && buffers.output && buffers.input->tensor.dtype() != buffers.output->dtype) {
    return fail(ErrorCode::mismatch, "{}: input is of {}, out of {}", request.operation,
                name_of(buffers.input->tensor.dtype()), name_of(buffers.output->dtype));
  }
  return buffers;
}

Result<Call> call_of(const Request& request, const Buffers& buffers) {
  const auto operation = collective::parse_operation(request.operation);
  const auto reduction = collective::parse_reduction(request.reduction);
  if (!reduction) return fail(ErrorCode::usage, "op={} is no reduction", request.reduction);
  CHECK(operation.has_value(), "diji/collective.py knows the operations");
  const DType dtype = buffers.input    ? buffers.input->tensor.dtype()
                      : buffers.output ? buffers.output->dtype
                                       : DType::f32;
  auto type = collective::element_type(dtype);
  if (!request.dtype.empty()) {
    const auto named = collective::parse_element_type(request.dtype);
    if (!named || collective::bytes_of(*named) != bytes_of(dtype))
      return fail(ErrorCode::usage, "dtype={} does not fit arrays of {}", request.dtype, name_of(dtype));
    type = *named;
  }
  Call call{.operation = *operation,
            .input = buffers.input ? buffers.input->tensor.bytes().data() : nullptr,
            .output = buffers.output ? buffers.output->array.data() : nullptr,
            .count = request.count,
            .type = type,
            .reduction = *reduction,
            .factor = request.factor,
            .root = request.root,
            .peer = request.peer,
            .exact = request.exact,
            .algorithm = request.algorithm,
            .timeout_us = request.timeout_us};
  if (request.counts) call.counts = *request.counts;
  if (request.receive_counts) call.receive_counts = *request.receive_counts;
  return call;
}

// Memory is as long as the array says: a call must not go past it.
Result<void> check_sizes(const Call& call, const Buffers& buffers, const collective::Communicator& comm) {
  TRY(collective::check_call(call, comm.rank(), comm.world()));
  const std::int64_t wanted = collective::input_count(call, comm.rank(), comm.world());
  const std::int64_t results = collective::output_count(call, comm.rank(), comm.world());
  const auto size = [](const auto& array) { return static_cast<std::int64_t>(array.size()); };
  if (wanted > 0 && size(buffers.input->array) != wanted) {
    return fail(ErrorCode::mismatch, "{}: the input has {} elements, {} are wanted",
                collective::name_of(call.operation), buffers.input->array.size(), wanted);
  }
  if (results > 0 && size(buffers.output->array) != results) {
    return fail(ErrorCode::mismatch, "{}: out has {} elements, {} are wanted",
                collective::name_of(call.operation), buffers.output->array.size(), results);
  }
  return {};
}

nb::object make_call(Comm& comm, const Request& request, bool waits) {
  const auto communicator = comm.communicator;
  if (communicator == nullptr) return closed();
  auto buffers = buffers_of(request);
  if (!buffers) return raise(buffers.error());
  const auto call = call_of(request, *buffers);
  if (!call) return raise(call.error());
  if (const auto fits = check_sizes(*call, *buffers, *communicator); !fits) return raise(fits.error());
  if (waits) {
    const auto done = without_gil([&] { return communicator->run(*call); });
    return done ? nb::none() : raise(done.error());
  }
  std::erase_if(comm.in_flight, [](const InFlight& one) { return one.work->done(); });
  auto work = without_gil([&] { return communicator->start(*call); });
  if (!work) return raise(work.error());
  comm.in_flight.push_back({*work, *std::move(buffers)});
  return nb::cast(Handle{*std::move(work)});
}

/// (operation, array, peer) each; the first is "send" or "receive".
nb::object run_group(Comm& comm, const nb::list& messages, std::int64_t timeout_us) {
  const auto communicator = comm.communicator;
  if (communicator == nullptr) return closed();
  std::vector<Buffers> kept;
  std::vector<Call> calls;
  for (const nb::handle message : messages) {
    Request request{.operation = nb::cast<std::string>(message[0]),
                    .input = nb::none(),
                    .output = nb::none(),
                    .reduction = "sum",
                    .peer = nb::cast<int>(message[2]),
                    .timeout_us = timeout_us};
    const nb::object array = message[1];
    (request.operation == "send" ? request.input : request.output) = array;
    auto buffers = buffers_of(request);
    if (!buffers) return raise(buffers.error());
    auto call = call_of(request, *buffers);
    if (!call) return raise(call.error());
    call->count = static_cast<std::int64_t>(buffers->input ? buffers->input->array.size()
                                                           : buffers->output->array.size());
    kept.push_back(*std::move(buffers));
    calls.push_back(*call);
  }
  const auto done = without_gil([&] { return communicator->run_group(calls); });
  return done ? nb::none() : raise(done.error());
}

template <typename Make>
nb::object regroup(Comm& comm, const Make& make) {
  const auto communicator = comm.communicator;
  if (communicator == nullptr) return closed();
  return wrapped(without_gil([&] { return make(*communicator); }));
}

/// An array of bytes in memory that the other ranks of the host read in place.
nb::object allocate(Comm& comm, std::int64_t bytes) {
  const auto communicator = comm.communicator;
  if (communicator == nullptr) return closed();
  auto made = without_gil([&] { return communicator->allocate(bytes); });
  if (!made) return raise(made.error());
  auto owned = std::make_unique<collective::Allocation>(*std::move(made));
  std::byte* data = owned->data();
  const auto size = static_cast<std::size_t>(bytes);
  const nb::capsule owner(owned.release(),
                          [](void* p) noexcept { delete static_cast<collective::Allocation*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(data, 1, &size, owner));
}

nb::object wait(const Handle& handle, std::int64_t timeout_us) {
  const auto done = without_gil([&] { return handle.work->wait(timeout_us); });
  return done ? nb::none() : raise(done.error());
}

}  // namespace

void define_communicator(nb::module_& module) {
  module.def("communicator", &create);
  nb::class_<Handle>(module, "Work")
      .def("done", [](const Handle& handle) { return handle.work->done(); })
      .def("wait", &wait);
  nb::class_<Comm>(module, "Communicator")
      .def(
          "rank",
          [](const Comm& comm) { return comm.communicator ? nb::cast(comm.communicator->rank()) : closed(); })
      .def("world",
           [](const Comm& comm) {
             return comm.communicator ? nb::cast(comm.communicator->world()) : closed();
           })
      .def("transports",
           [](const Comm& comm) {
             return comm.communicator ? nb::cast(comm.communicator->transports()) : closed();
           })
      .def(
          "run",
          [](Comm& comm, const std::string& operation, nb::handle input, nb::handle output,
             std::int64_t count, const std::string& dtype, const std::string& reduction, double factor,
             int root, int peer, const Counts& counts, const Counts& receive_counts, bool exact,
             const std::string& algorithm, std::int64_t timeout_us, bool waits) {
            return make_call(comm,
                             {operation, input, output, count, dtype, reduction, factor, root, peer, counts,
                              receive_counts, exact, algorithm, timeout_us},
                             waits);
          },
          nb::arg("operation"), nb::arg("input").none(), nb::arg("output").none(), nb::arg("count"),
          nb::arg("dtype"), nb::arg("reduction"), nb::arg("factor"), nb::arg("root"), nb::arg("peer"),
          nb::arg("counts").none(), nb::arg("receive_counts").none(), nb::arg("exact"), nb::arg("algorithm"),
          nb::arg("timeout_us"), nb::arg("waits"))
      .def("run_group", &run_group)
      .def("allocate", &allocate)
      .def("split",
           [](Comm& comm, int color, int key) {
             return regroup(comm, [&](collective::Communicator& parent) {
               return collective::split(parent, color, key);
             });
           })
      .def("dup",
           [](Comm& comm) {
             return regroup(comm, [](collective::Communicator& parent) { return collective::dup(parent); });
           })
      .def("shrink",
           [](Comm& comm, std::int64_t timeout_us) {
             return regroup(comm, [&](collective::Communicator& parent) {
               return collective::shrink(parent, timeout_us);
             });
           })
      .def("abort",
           [](Comm& comm, const std::string& why) {
             if (comm.communicator) comm.communicator->abort(why);
           })
      .def("close", &Comm::close);
}

}  // namespace diji::python
