// Random operators on the CPU against the float64 interpreter within its proven bounds: attributes, shapes,
// dtypes and values are drawn, a graph with symbolic sizes is compiled once and run with many sizes.
//
//     random_operators [--seed S] [--cases N] [--seconds T] [--op NAME] [--case K] [--planted] [--verbose]
//
// Works in a child process, so that a crash, a hang or memory without end is a finding too: it is reported
// with the command that repeats it, and the next operator begins. Exit code 1: something was found.
#include "base/log.h"
#include "graph/interpreter.h"
#include "ops/catalog.h"
#include "runtime/compiler.h"
#include "runtime/conformance.h"
#include "runtime/session.h"
#include "tests/fuzz/operator_template.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

namespace diji::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kCasesOfTemplate = 96;
// A graph that is slow to interpret gives way to the next one: the number of cases changes with that, no case
// does.
constexpr std::chrono::milliseconds kTimeOfTemplate{400};
constexpr std::chrono::seconds kHang{60};
// A case has 3,000 elements; sizes that come from data may be anything.
constexpr std::uint64_t kDeviceBytesMax = std::uint64_t{16} << 20;
#ifdef DIJI_ASAN
constexpr rlim_t kMemoryBytesMax = RLIM_INFINITY;  // its shadow takes terabytes of addresses
#else
constexpr rlim_t kMemoryBytesMax = rlim_t{8} << 30;  // addresses, not pages in use; those are reported
#endif

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t cases = ~std::uint64_t{0};
  std::int64_t seconds = 3600;
  std::string op;
  std::optional<std::uint64_t> only_case;
  bool planted = false;  // one wrong element in every answer, which must be found
  bool verbose = false;
};

// Shared with the child: what it does now and what it has done, also when it has come to an end.
struct Progress {
  std::atomic<std::uint64_t> seed, number;  // of the template, of its case
  std::atomic<std::uint64_t> templates, refused, unsupported, too_large;
  std::atomic<std::uint64_t> cases, elements, alike, undecided, unproved, found;
  std::atomic<std::int64_t> peak_mib;
  std::atomic<bool> done;
};

std::vector<const OpDef*> operators_of(const Options& options) {
  std::vector<const OpDef*> result;
  for (const OpDef* op : catalog()) {
    if (op->samples != nullptr && (options.op.empty() || options.op == op->name)) result.push_back(op);
  }
  return result;
}

std::string repeated_by(const Options& options, std::uint64_t seed, std::uint64_t number) {
  const std::string op = options.op.empty() ? "" : fmt::format(" --op {}", options.op);
  return fmt::format("random_operators{} --seed {} --case {}", op, seed, number);
}

class Worker {
 public:
  Worker(const Options& options, Progress& progress, Device& device)
      : options_(options), progress_(progress), device_(device), operators_(operators_of(options)) {}

  void run(Clock::time_point end) {
    while (progress_.cases < options_.cases && Clock::now() < end) {
      run_template(progress_.seed);
      ++progress_.templates;
      note_memory();
      if (options_.only_case) break;
      ++progress_.seed;
      progress_.number = 0;
    }
    progress_.done = true;
  }

 private:
  void run_template(std::uint64_t seed) {
    const auto drawn = OperatorTemplate::drawn(operators_, seed);
    if (!drawn) return (void)++progress_.refused;
    if (options_.verbose) fmt::print("{}\n", drawn->text());
    auto executable = compile(drawn->graph(), device_, cache_, {.verify_each = true});
    if (!executable && executable.error().code == ErrorCode::unsupported) {
      if (options_.verbose) fmt::print("unsupported: {}\n", executable.error().message);
      return (void)++progress_.unsupported;
    }
    if (!executable) return report(*drawn, "compiling: " + executable.error().message, {});
    auto context = ExecutionContext::create(*executable, device_.default_pool());
    if (!context) return report(*drawn, "creating a context: " + context.error().message, {});
    const auto begin = Clock::now();
    const std::uint64_t first = options_.only_case.value_or(0);
    const std::uint64_t last = options_.only_case ? first + 1 : kCasesOfTemplate;
    std::uint64_t without_inputs = 0;
    for (std::uint64_t number = first; number < last && progress_.cases < options_.cases; ++number) {
      progress_.number = number;
      const auto inputs = drawn->inputs((*executable)->graph(), number);
      if (!inputs && ++without_inputs > 8) break;
      if (!inputs) continue;
      run_case(*drawn, **context, *inputs);
      if (Clock::now() - begin > kTimeOfTemplate) break;
    }
  }

  // Of each case: the device first, whose memory has a limit; what is beyond it is no case of the
  // interpreter.
  void run_case(const OperatorTemplate& drawn, ExecutionContext& context,
                std::span<const HostTensor> inputs) {
    auto got = context.run(inputs);
    if (!got && got.error().code == ErrorCode::out_of_memory) return (void)++progress_.too_large;
    const auto truth = interpret_with_bounds(drawn.graph(), inputs);
    if (got && options_.planted && got->back().count() > 0) flip_a_bit(got->back());
    ++progress_.cases;
    if (!truth && truth.error().code == ErrorCode::unsupported) return (void)++progress_.undecided;
    if (!truth || !got) {
      if (refused_alike(truth, got)) return (void)++progress_.alike;
      return report(drawn, refusal(truth, got), inputs);
    }
    for (std::size_t i = 0; i < got->size(); ++i) {
      const Comparison compared = compare_with_truth((*got)[i], promised((*truth)[i]), (*truth)[i].bound);
      progress_.unproved += static_cast<std::uint64_t>(compared.unproved);
      progress_.elements += static_cast<std::uint64_t>((*got)[i].count());
      if (!compared.ok) return report(drawn, fmt::format("output {}: {}", i, compared.problem), inputs);
    }
    // The second run meets the arena as the first one left it, and gives the same bits.
    if (progress_.number % 16 != 1) return;
    const auto again = context.run(inputs);
    for (std::size_t i = 0; i < got->size(); ++i) {
      if (!again || !(*got)[i].same_bits((*again)[i])) return report(drawn, "a second run differs", inputs);
    }
  }

  // Sizes that do not fit and data out of range may both be wrong at once, and either is said. Where all
  // results are empty, a device computes no element, so that nothing asks for what is out of range.
  static bool refused_alike(const Result<std::vector<BoundedTensor>>& truth,
                            const Result<std::vector<HostTensor>>& got) {
    const auto of_a_run = [](const Error& error) {
      return error.code == ErrorCode::data || error.code == ErrorCode::mismatch;
    };
    if (truth || !of_a_run(truth.error())) return false;
    if (!got) return of_a_run(got.error());
    return std::ranges::all_of(*got, [](const HostTensor& tensor) { return tensor.count() == 0; });
  }
  static std::string refusal(const Result<std::vector<BoundedTensor>>& truth,
                             const Result<std::vector<HostTensor>>& got) {
    return fmt::format("the interpreter: {}; the device: {}", truth ? "a result" : truth.error().message,
                       got ? "a result" : got.error().message);
  }

  // The highest of the last element: a sign, the largest part of an integer, truth.
  static void flip_a_bit(HostTensor& tensor) {
    HostTensor copy = HostTensor::allocate(tensor.dtype(), tensor.shape()).value();
    std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
    copy.mutable_bytes().back() ^=
        std::byte{tensor.dtype() == DType::boolean ? std::uint8_t{1} : std::uint8_t{0x80}};
    tensor = std::move(copy);
  }

  // An infinity or NaN that may come from rounding is no truth (graph/error_bound.h: it has no bound).
  static HostTensor promised(const BoundedTensor& truth) {
    const auto bounds = truth.bound.values<double>();
    if (truth.value.dtype() != DType::f64 ||
        std::ranges::all_of(bounds, [](double b) { return b < HUGE_VAL; }))
      return truth.value;
    HostTensor values = HostTensor::allocate(DType::f64, truth.value.shape()).value();
    for (std::size_t i = 0; i < bounds.size(); ++i)
      values.mutable_values<double>()[i] = bounds[i] < HUGE_VAL ? truth.value.values<double>()[i] : 0;
    return values;
  }

  void report(const OperatorTemplate& drawn, const std::string& problem, std::span<const HostTensor> inputs) {
    ++progress_.found;
    // One of a template is enough to repeat all of them.
    if (!reported_.insert(progress_.seed).second) return;
    fmt::print("FOUND {} {}: {}\n  repeat: {}\n", drawn.op().name, name_of(drawn.dtype()), problem,
               repeated_by(options_, progress_.seed, progress_.number));
    if (options_.only_case) {
      for (const HostTensor& input : inputs) print_tensor(input);
    }
    std::fflush(stdout);
  }

  static void print_tensor(const HostTensor& tensor) {
    fmt::print("  {}{}:", name_of(tensor.dtype()), text_of(tensor.shape()));
    for (std::int64_t i = 0; i < std::min<std::int64_t>(tensor.count(), 200); ++i)
      fmt::print(" {}", tensor.as_double(i));
    fmt::print("\n");
  }

  void note_memory() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    progress_.peak_mib = std::max<std::int64_t>(progress_.peak_mib, usage.ru_maxrss / 1024);
  }

  const Options& options_;
  Progress& progress_;
  Device& device_;
  CompileCache cache_{{}};  // none: every template is new
  std::vector<const OpDef*> operators_;
  std::set<std::uint64_t> reported_;
};

int work(const Options& options, Progress& progress, Clock::time_point end) {
  const rlimit limit = {kMemoryBytesMax, kMemoryBytesMax};
  ::setrlimit(RLIMIT_AS, &limit);
  set_log_level(LogLevel::error);
  DeviceList devices(built_in_plugins(), 1);
  auto device = devices.open("cpu");
  if (!device) {
    fmt::print(stderr, "random_operators: {}\n", device.error().message);
    return 4;
  }
  (*device)->default_pool().set_limit(kDeviceBytesMax);
  Worker(options, progress, **device).run(end);
  return 0;
}

void print_summary(const Progress& progress, double seconds, std::string_view head) {
  const auto of = [](const std::atomic<std::uint64_t>& number) { return number.load(); };
  fmt::print(
      "{}{} cases of {} operators drawn in {:.0f} s: {} elements compared ({} without a bound), {} cases "
      "refused by "
      "both, {} without one truth; {} cases too large, {} draws refused, {} not compiled; most memory {} "
      "MiB; {} found\n",
      head, of(progress.cases), of(progress.templates), seconds, of(progress.elements), of(progress.unproved),
      of(progress.alike), of(progress.undecided), of(progress.too_large), of(progress.refused),
      of(progress.unsupported), progress.peak_mib.load(), of(progress.found));
  std::fflush(stdout);
}

/// Until the child ends, or its case does not.
struct Ending {
  int status = 0;
  bool hung = false;
};
Ending watch(pid_t child, const Progress& progress, Clock::time_point begin) {
  Ending ending;
  std::pair<std::uint64_t, std::uint64_t> seen{};
  auto since = Clock::now(), told = since;
  while (::waitpid(child, &ending.status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto now = Clock::now();
    if (const std::pair at(progress.seed.load(), progress.number.load()); at != seen) {
      seen = at;
      since = now;
    }
    if (now - told > std::chrono::seconds(60)) {
      print_summary(progress, std::chrono::duration<double>(now - begin).count(), "  ");
      told = now;
    }
    if (now - since < kHang) continue;
    ending.hung = true;
    ::kill(child, SIGKILL);
    ::waitpid(child, &ending.status, 0);
    break;
  }
  return ending;
}

int run(const Options& options) {
  void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    fmt::print(stderr, "random_operators: shared memory: {}\n", std::strerror(errno));
    return 4;
  }
  auto& progress = *new (shared) Progress{};
  progress.seed = options.seed;
  const auto begin = Clock::now(), end = begin + std::chrono::seconds(options.seconds);
  while (!progress.done) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const int code = work(options, progress, end);
      std::fflush(nullptr);
      ::_exit(code);
    }
    const Ending ending = watch(child, progress, begin);
    if (WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == 4) return 4;
    if (progress.done) break;
    ++progress.found;
    fmt::print("FOUND {}: {}\n  repeat: {}\n", OperatorTemplate::chosen(operators_of(options), progress.seed),
               ending.hung
                   ? fmt::format("no answer within {} s", kHang.count())
                   : fmt::format("the process ended: {}",
                                 WIFSIGNALED(ending.status) ? ::strsignal(WTERMSIG(ending.status)) : "exit"),
               repeated_by(options, progress.seed, progress.number));
    if (options.only_case) break;
    ++progress.seed;
    progress.number = 0;
  }
  print_summary(progress, std::chrono::duration<double>(Clock::now() - begin).count(),
                fmt::format("seeds {} to {}: ", options.seed, progress.seed.load()));
  return progress.found == 0 ? 0 : 1;
}

std::optional<Options> parse(std::span<char*> words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view name = words[i];
    if (name == "--verbose" || name == "--planted") {
      (name == "--verbose" ? options.verbose : options.planted) = true;
      continue;
    }
    if (++i == words.size()) return std::nullopt;
    const std::string_view value = words[i];
    std::uint64_t number = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (name == "--op") {
      options.op = value;
    } else if (error != std::errc{} || rest != value.data() + value.size()) {
      return std::nullopt;
    } else if (name == "--seed") {
      options.seed = number;
    } else if (name == "--cases") {
      options.cases = number;
    } else if (name == "--seconds") {
      options.seconds = static_cast<std::int64_t>(number);
    } else if (name == "--case") {
      options.only_case = number;
    } else {
      return std::nullopt;
    }
  }
  return operators_of(options).empty() ? std::nullopt : std::optional(options);
}

}  // namespace
}  // namespace diji::fuzz

int main(int count, char** words) {
  const auto options = diji::fuzz::parse(std::span(words + 1, static_cast<std::size_t>(count - 1)));
  if (!options) {
    fmt::print(stderr,
               "random_operators [--seed S] [--cases N] [--seconds T] [--op NAME] [--case K] [--planted] "
               "[--verbose]\n");
    return 2;
  }
  return diji::fuzz::run(*options);
}
