// NVRTC's and HIPRTC's functions over the compiler that built diji: kernel text becomes a shared object. With
// FAKE_GPU_KERNELS=FOLDER texts are only kept there, for real compilers (scripts/compile-check).
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

namespace {

// CUDA's words for a host: the kernel's own prelude stands on them as it does on an unknown compiler's.
constexpr const char* kWords = R"(
#define __device__
#define __shared__ static
#define __global__
#define __launch_bounds__(n)
typedef unsigned int fake_uint;
extern "C" {
struct { fake_uint x; } blockIdx, threadIdx, gridDim;
void (*fake_group_barrier)();
void (*fake_matrix_step)(int lanes, int is_bfloat, float* const* sums, const fake_uint* operands);
float fmaf(float, float, float), copysignf(float, float), sqrtf(float), fabsf(float);
float floorf(float), ceilf(float), rintf(float);
double fma(double, double, double), copysign(double, double), sqrt(double), fabs(double);
double floor(double), ceil(double), rint(double);
}
inline void __syncthreads() { fake_group_barrier(); }
inline int atomicCAS(int* word, int from, int to) { return __sync_val_compare_and_swap(word, from, to); }
namespace diji {
template <int is_bfloat, typename... Operands>
inline void fake_step(float& c0, float& c1, float& c2, float& c3, Operands... operands) {
  float* const sums[] = {&c0, &c1, &c2, &c3};
  const fake_uint all[] = {operands...};
  fake_matrix_step(sizeof...(operands) == 6 ? 32 : 64, is_bfloat, sums, all);
}
template <typename... Operands>
inline void matrix_step_f16(float& c0, float& c1, float& c2, float& c3, Operands... operands) {
  fake_step<0>(c0, c1, c2, c3, operands...);
}
template <typename... Operands>
inline void matrix_step_bf16(float& c0, float& c1, float& c2, float& c3, Operands... operands) {
  fake_step<1>(c0, c1, c2, c3, operands...);
}
}
)";

struct Program {
  std::string text, log, code;
};

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

// One function for each kernel that takes its parameters as an array of pointers: fake_<entry>.
std::string callers(const std::string& text) {
  const std::string word = "void diji_";
  std::string all;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t open = text.find('(', at), close = text.find(')', open);
    const std::string name = text.substr(at + 5, open - at - 5);
    std::istringstream parameters(text.substr(open + 1, close - open - 1));
    std::string call, one;
    for (int i = 0; std::getline(parameters, one, ','); ++i) {
      const char* type = one.find('*') != std::string::npos ? "unsigned char*" : "long";
      call += (i == 0 ? "" : ", ") + ("*(" + std::string(type) + "*)p[") + std::to_string(i) + "]";
    }
    all += "extern \"C\" void fake_" + name + "(void** p) { diji::" + name + "(" + call + "); }\n";
    const std::string body = text.substr(at, text.find("\n}\n", at) - at);
    const auto has = [&](const char* call) { return body.find(call) != std::string::npos; };
    const char* lanes = has(" group_barrier(") ? "DIJI_GROUP" : has(" matrix_step_") ? "FAKE_LANES" : "1";
    all += "extern \"C\" int lanes_" + name + " = " + lanes + ";\n";
  }
  return all;
}

// Each text once, under a name made of its contents.
bool keep(const std::string& text, const char* ending) {
  const char* folder = std::getenv("FAKE_GPU_KERNELS");
  if (folder == nullptr) return false;
  std::ofstream(std::filesystem::path(folder) / (std::to_string(std::hash<std::string>()(text)) + ending))
      << text;
  return true;
}

int compile(Program& program, int lanes) {
  constexpr int kRefused = 6;  // NVRTC_ERROR_COMPILATION
  static std::atomic<int> number = 0;
  if (keep(program.text, lanes == 32 ? ".cu" : ".hip")) {
    program.log = "the text was kept, nothing was compiled";
    return kRefused;
  }
  const auto place = std::filesystem::temp_directory_path() /
                     ("fake_gpu_" + std::to_string(getpid()) + "_" + std::to_string(number++));
  const std::string source = place.string() + ".cpp", object = place.string() + ".so",
                    log = place.string() + ".log";
  std::ofstream(source) << "#define FAKE_LANES " << lanes << kWords << program.text << callers(program.text);
  const std::string command =
      std::string(FAKE_GPU_COMPILER) +
      " -std=c++17 -w -O1 -fPIC -shared -nostdlib -ffp-contract=off -march=native -o " + object + " " +
      source + " 2> " + log;
  const int status = std::system(command.c_str());
  program.log = read_all(log);
  program.code = read_all(object);
  for (const std::string& file : {source, object, log}) std::filesystem::remove(file);
  return status == 0 ? 0 : kRefused;
}

Program& of(void* program) { return *static_cast<Program*>(program); }

int version(int* major, int* minor) {
  *major = 0;
  *minor = 1;
  return 0;
}

}  // namespace

extern "C" {
int nvrtcCreateProgram(void** out, const char* text, const char*, int, const char* const*,
                       const char* const*) {
  *out = new Program{.text = text, .log = "", .code = ""};
  return 0;
}
int nvrtcCompileProgram(void* program, int, const char* const*) { return compile(of(program), 32); }
int hiprtcCompileProgram(void* program, int, const char* const*) { return compile(of(program), 64); }
int nvrtcGetProgramLogSize(void* program, std::size_t* bytes) {
  *bytes = of(program).log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(void* program, char* text) {
  std::memcpy(text, of(program).log.c_str(), of(program).log.size() + 1);
  return 0;
}
int nvrtcGetCUBINSize(void* program, std::size_t* bytes) {
  *bytes = of(program).code.size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* code) {
  std::memcpy(code, of(program).code.data(), of(program).code.size());
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
int nvrtcVersion(int* major, int* minor) { return version(major, minor); }

decltype(nvrtcCreateProgram) hiprtcCreateProgram __attribute__((alias("nvrtcCreateProgram")));
decltype(nvrtcGetProgramLogSize) hiprtcGetProgramLogSize __attribute__((alias("nvrtcGetProgramLogSize")));
decltype(nvrtcGetProgramLog) hiprtcGetProgramLog __attribute__((alias("nvrtcGetProgramLog")));
decltype(nvrtcGetCUBINSize) hiprtcGetCodeSize __attribute__((alias("nvrtcGetCUBINSize")));
decltype(nvrtcGetCUBIN) hiprtcGetCode __attribute__((alias("nvrtcGetCUBIN")));
decltype(nvrtcDestroyProgram) hiprtcDestroyProgram __attribute__((alias("nvrtcDestroyProgram")));
decltype(nvrtcVersion) hiprtcVersion __attribute__((alias("nvrtcVersion")));
}
