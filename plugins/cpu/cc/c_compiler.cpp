// Which compiler, with which options, and one run of it in a folder that goes with the call.
#include "plugins/cpu/cc/c_compiler.h"

#include "base/files.h"
#include "plugins/cpu/cc/child_process.h"
#include "plugins/cpu/llvm_compiler.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>

namespace diji::cpu {
namespace {

constexpr auto kVersionDeadline = std::chrono::seconds(10);
constexpr auto kCompileDeadline = std::chrono::seconds(300);  // a module of fifty kernels takes seconds
constexpr std::size_t kWordsMax = 1500;                       // of the compiler, in an error's sentence

// What the dialect promises to its text, and what the loader wants of an object: no calls into a runtime, no
// unwinding tables, nothing that is patched at start.
constexpr const char* kOptions[] = {"-O3",
                                    "-std=gnu11",
                                    "-fwrapv",
                                    "-fno-strict-aliasing",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-stack-protector",
                                    "-fno-asynchronous-unwind-tables",
                                    "-fPIC",
                                    "-w"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Asked once a program in the life of this process.
Result<std::string> version_of(const std::string& program) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(program); found != known.end()) return found->second;
  const std::string command[] = {program, "--version"};
  const Finished finished = TRY(run_program(command, kVersionDeadline));
  if (finished.exit_code != 0)
    return fail(ErrorCode::unsupported, "{} --version ends with {}", program, finished.exit_code);
  return known.emplace(program, first_line(finished.output)).first->second;
}

/// A folder of this call's own, gone with it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "diji-kernels-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr)
      return fail(ErrorCode::io, "no folder {} for kernel text: {}", name, strerror(errno));
    return TemporaryFolder(std::move(name));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace

Result<bool> compiles_c() {
  const std::string chosen = environment("DIJI_CPU_COMPILER");
  const CpuFacts& facts = cpu_facts();
  if (chosen.empty()) return facts.llvm_triple.empty() || (facts.links_c && !has_llvm());
  if (chosen != "c" && chosen != "llvm")
    return fail(ErrorCode::usage, "DIJI_CPU_COMPILER={}: no such compiler; use llvm or c", chosen);
  if (chosen == "llvm" && facts.llvm_triple.empty())
    return fail(ErrorCode::usage, "DIJI_CPU_COMPILER=llvm: this processor's kernels go through C only");
  return chosen == "c";
}

Result<CCompiler> find_c_compiler(const CpuTarget& target) {
  const std::string named = environment("CC");
  const std::vector<std::string> programs =
      named.empty() ? std::vector<std::string>{"clang-19", "gcc", "cc"} : std::vector<std::string>{named};
  std::string tried;
  for (const std::string& program : programs) {
    auto version = version_of(program);
    if (!version) {
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", version.error().message);
      continue;
    }
    CCompiler compiler{.version = *std::move(version), .command = {program}};
    compiler.command.insert(compiler.command.end(), std::begin(kOptions), std::end(kOptions));
    for (const std::string& options : {target.c_options, environment("DIJI_CFLAGS")}) {
      std::istringstream words(options);
      for (std::string option; words >> option;) compiler.command.push_back(option);
    }
    return compiler;
  }
  return fail(ErrorCode::unsupported, "no C compiler for kernels ({}); install one or name it in CC", tried);
}

Result<std::vector<std::byte>> compile_c(const CCompiler& compiler, std::string_view text) {
  const TemporaryFolder folder = TRY(TemporaryFolder::create());
  const std::string source = folder / "kernels.c", object = folder / "kernels.o";
  TRY(write_file_atomically(source, text));
  std::vector<std::string> command = compiler.command;
  // The own loader takes an object; elsewhere the dynamic linker takes a library.
  const bool linked = cpu_facts().links_c;
  command.insert(command.end(), {linked ? "-shared" : "-c", "-o", object, source});
  if (linked) command.push_back("-lm");
  const Finished finished = TRY(run_program(command, kCompileDeadline));
  if (finished.exit_code != 0) {
    return fail(ErrorCode::malformed, "{} ends with {}: {}", command[0], finished.exit_code,
                finished.output.substr(0, kWordsMax));
  }
  return read_file(object);
}

}  // namespace diji::cpu
