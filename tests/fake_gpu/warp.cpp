// Lanes in lockstep as coroutines, and products of fragments as the makers' manuals lay them out: written
// apart from codegen/matrix_unit.cpp, against which it is the test.
#include "base/dtype.h"
#include "tests/fake_gpu/fake_gpu.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace fake_gpu {
namespace {

constexpr std::size_t kStackBytes = 128 * 1024;

enum class Wait : std::uint8_t { none, barrier, matrix_step };

struct Lane {
  ucontext_t context{};
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  Wait wait = Wait::none;
  bool done = false;
  float* sums[4] = {};
  std::uint32_t operands[8] = {};
};

struct Warp {
  ucontext_t scheduler{};
  std::vector<std::unique_ptr<Lane>> lanes;
  const std::function<void(int)>* body = nullptr;
  int running = 0;
  bool is_bfloat = false;
};

thread_local Warp* current = nullptr;

void enter_lane() {
  const int number = current->running;
  (*current->body)(number);
  current->lanes[static_cast<std::size_t>(number)]->done = true;
}

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "fake_gpu: %s\n", why);
  std::abort();
}

float half_of(const Lane& lane, int first, int item, bool is_bfloat) {
  const std::uint32_t pair = lane.operands[first + item / 2];
  const auto bits = static_cast<std::uint16_t>(item % 2 == 0 ? pair : pair >> 16);
  if (is_bfloat) {
    diji::BFloat16 number;
    number.bits = bits;
    return static_cast<float>(static_cast<double>(number));
  }
  diji::Float16 number;
  number.bits = bits;
  return static_cast<float>(static_cast<double>(number));
}

// mma.m16n8k16: PTX ISA 9.7.14.5.8, item i of a lane.
void step_of_32(Warp& warp) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; ++l) {
    const Lane& lane = *warp.lanes[static_cast<std::size_t>(l)];
    const int group = l >> 2, thread = l % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const int column = thread * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      a[row][column] = half_of(lane, 0, i, warp.is_bfloat);
    }
    for (int i = 0; i < 4; ++i)
      b[thread * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group] = half_of(lane, 4, i, warp.is_bfloat);
  }
  for (int l = 0; l < 32; ++l) {
    const int group = l >> 2, thread = l % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? group : group + 8, column = thread * 2 + (i & 1);
      float& sum = *warp.lanes[static_cast<std::size_t>(l)]->sums[i];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
    }
  }
}

// v_mfma_f32_16x16x16: lane i + 16 · (k / 4) holds a[i][k], lane j + 16 · (i / 4) the sum of [i][j].
void step_of_64(Warp& warp) {
  const auto lane = [&](int number) -> Lane& { return *warp.lanes[static_cast<std::size_t>(number)]; };
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      float& sum = *lane(j + 16 * (i / 4)).sums[i % 4];
      for (int k = 0; k < 16; ++k) {
        sum += half_of(lane(i + 16 * (k / 4)), 0, k % 4, warp.is_bfloat) *
               half_of(lane(j + 16 * (k / 4)), 2, k % 4, warp.is_bfloat);
      }
    }
  }
}

// Until all of them are here.
void meet(Lane& lane, Wait what) {
  lane.wait = what;
  swapcontext(&lane.context, &current->scheduler);
}

thread_local std::vector<std::unique_ptr<Lane>> idle_lanes;  // with their stacks

std::unique_ptr<Lane> ready_lane(Warp& warp) {
  if (idle_lanes.empty()) idle_lanes.push_back(std::make_unique<Lane>());
  std::unique_ptr<Lane> lane = std::move(idle_lanes.back());
  idle_lanes.pop_back();
  lane->wait = Wait::none;
  lane->done = false;
  getcontext(&lane->context);
  lane->context.uc_stack.ss_sp = lane->stack.get();
  lane->context.uc_stack.ss_size = kStackBytes;
  lane->context.uc_link = &warp.scheduler;
  makecontext(&lane->context, enter_lane, 0);
  return lane;
}

}  // namespace

void barrier() { meet(*current->lanes[static_cast<std::size_t>(current->running)], Wait::barrier); }

void matrix_step(int lanes, int is_bfloat, float* const* sums, const std::uint32_t* operands) {
  Warp& warp = *current;
  if (static_cast<int>(warp.lanes.size()) != lanes) die("a matrix step for another number of lanes");
  Lane& lane = *warp.lanes[static_cast<std::size_t>(warp.running)];
  for (int i = 0; i < 4; ++i) lane.sums[i] = sums[i];
  for (int i = 0; i < (lanes == 32 ? 6 : 4); ++i) lane.operands[i] = operands[i];
  warp.is_bfloat = is_bfloat != 0;
  meet(lane, Wait::matrix_step);
}

void run_lanes(int count, const std::function<void(int)>& body) {
  Warp warp;
  warp.body = &body;
  current = &warp;
  for (int i = 0; i < count; ++i) warp.lanes.push_back(ready_lane(warp));
  for (;;) {
    for (int i = 0; i < count; ++i) {
      warp.running = i;
      swapcontext(&warp.scheduler, &warp.lanes[static_cast<std::size_t>(i)]->context);
    }
    const Wait wait = warp.lanes[0]->wait;
    const bool done = warp.lanes[0]->done;
    for (const auto& lane : warp.lanes) {
      if (lane->wait != wait || lane->done != done) die("lanes of a group went different ways");
      lane->wait = Wait::none;
    }
    if (done) break;
    if (wait == Wait::matrix_step) count == 32 ? step_of_32(warp) : step_of_64(warp);
  }
  for (auto& lane : warp.lanes) idle_lanes.push_back(std::move(lane));
  current = nullptr;
}

}  // namespace fake_gpu
