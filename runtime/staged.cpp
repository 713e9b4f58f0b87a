// Sessions of models in which values decide ranks or axes: those values first, then the rest for their
// contents.
#include "base/log.h"
#include "formats/onnx/import.h"
#include "ops/random_numbers.h"
#include "runtime/session.h"

#include <algorithm>

namespace diji {
namespace {

constexpr std::size_t kRestsMax = 16;  // compiled at once

// What tells lists of values apart.
std::string key_of(std::span<const HostTensor> values) {
  std::string key;
  for (const HostTensor& value : values) {
    key += fmt::format("{}{}:", name_of(value.dtype()), text_of(value.shape()));
    key.append(reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size());
  }
  return key;
}

}  // namespace

struct Session::Staged {
  using Values = std::vector<HostTensor>;

  std::unique_ptr<Session> deciding;  ///< its outputs are `names`
  std::vector<std::string> names;
  std::function<Result<std::unique_ptr<Session>>(const Values&)> open_rest;
  std::mutex mutex;  ///< of the rests
  struct Rest {
    std::string key;
    std::shared_ptr<Session> session;
  };
  std::vector<Rest> rests;  ///< the one used last stands last

  Result<std::shared_ptr<Session>> rest_for(const Values& values) {
    std::string key = key_of(values);
    const std::scoped_lock lock(mutex);
    const auto known = std::ranges::find(rests, key, &Rest::key);
    if (known != rests.end()) {
      std::rotate(known, known + 1, rests.end());
      return rests.back().session;
    }
    auto session = std::shared_ptr<Session>(TRY(open_rest(values)));
    if (rests.size() == kRestsMax) rests.erase(rests.begin());
    rests.push_back({std::move(key), std::move(session)});
    return rests.back().session;
  }
};

Session::Session() = default;
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open_staged(DeviceList& devices, const std::filesystem::path& path,
                                                      const SessionOptions& options, const Error& undecided) {
  auto staged = std::make_unique<Staged>();
  staged->names = undecided.deciding_values;
  SessionOptions first = options;
  first.only = staged->names;
  auto deciding = open_in(devices, path, first, nullptr);
  if (!deciding) {
    // What cannot be computed by itself cannot be compiled for: the first sentence is the one that helps.
    return deciding.error().code == ErrorCode::unsupported ? std::unexpected(undecided) : std::move(deciding);
  }
  staged->deciding = *std::move(deciding);
  std::unique_ptr<Session> session(new Session());
  session->main_.executable = staged->deciding->main_.executable;
  session->pool_ = staged->deciding->pool_;
  session->seed_ = options.seed;
  if (options.only.empty()) {
    for (std::string& name : TRY(output_names_of(path)))
      session->outputs_.push_back({std::move(name), ValueId::none});
  } else {
    for (const std::string& name : options.only) session->outputs_.push_back({name, ValueId::none});
  }
  warn("{}: the values of {} decide ranks or axes; the rest of the model is compiled for each that come up",
       options.name, fmt::join(staged->names, ", "));
  staged->open_rest = [&devices, path, options, names = staged->names,
                       pool = session->pool_](const Staged::Values& values) {
    SessionOptions rest = options;
    for (std::size_t i = 0; i < names.size(); ++i) rest.known.insert_or_assign(names[i], values[i]);
    return open_in(devices, path, rest, pool);
  };
  session->staged_ = std::move(staged);
  return session;
}

Result<std::vector<HostTensor>> Session::run_staged(const std::map<std::string, HostTensor>& inputs,
                                                    RunStats* stats, const RunOptions& options) {
  // Both parts draw with one key: what both compute is the same.
  const auto keyed = with_key(inputs, seed_, runs_++);
  const auto run_part = [&](Session& part, RunStats* part_stats) {
    auto own = keyed;
    if (!draws(part.graph())) own.erase(std::string(kRandomKey));
    return part.run(own, part_stats, options);
  };
  const auto values = TRY(run_part(*staged_->deciding, nullptr));
  const auto rest = TRY(staged_->rest_for(values));
  if (rest->outputs().size() == outputs_.size()) return run_part(*rest, stats);
  return fail(ErrorCode::unsupported,
              "{} outputs are {} tensors for these values of {}: a sequence among them", outputs_.size(),
              rest->outputs().size(), fmt::join(staged_->names, ", "));
}

Coverage Session::coverage() const {
  if (staged_ == nullptr) return coverage_;
  const std::scoped_lock lock(staged_->mutex);
  Coverage all = staged_->deciding->coverage();
  if (!staged_->rests.empty()) all.add(staged_->rests.back().session->coverage());
  return all;
}

int Session::compiled_kernels() const {
  if (staged_ == nullptr) return executable().compiled_kernels;
  const std::scoped_lock lock(staged_->mutex);
  int count = staged_->deciding->compiled_kernels();
  for (const auto& rest : staged_->rests) count += rest.session->compiled_kernels();
  return count;
}

std::size_t Session::module_count() const {
  if (staged_ == nullptr) return executable().modules->size();
  const std::scoped_lock lock(staged_->mutex);
  std::size_t count = staged_->deciding->module_count();
  for (const auto& rest : staged_->rests) count += rest.session->module_count();
  return count;
}

}  // namespace diji
