// CPU quotas read from made-up trees of both cgroup versions.
#include "base/cores.h"

#include "base/thread_pool.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/expect.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

namespace diji {
namespace {

using test::ScratchFolder;

TEST_CASE("version 2: the smallest quota on the way up") {
  const ScratchFolder root;
  EXPECT_FALSE(cgroup_cores(root.path()));  // no cgroups at all
  root.write("proc/self/cgroup", "0::/pod/app\n");
  EXPECT_FALSE(cgroup_cores(root.path()));
  root.write("sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
  EXPECT_FALSE(cgroup_cores(root.path()));
  root.write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  EXPECT(cgroup_cores(root.path()) == 1.5);
  root.write("sys/fs/cgroup/pod/app/cpu.max", "400000 100000\n");
  EXPECT(cgroup_cores(root.path()) == 1.5);
  root.write("sys/fs/cgroup/pod/app/cpu.max", "50000 100000\n");
  EXPECT(cgroup_cores(root.path()) == 0.5);
}

TEST_CASE("version 1: both mount names, and the container's root when the path is the host's") {
  const ScratchFolder root;
  root.write("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroup_cores(root.path()));
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT(cgroup_cores(root.path()) == 3);
  root.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT(cgroup_cores(root.path()) == 2);
}

TEST_CASE("unreadable quotas set no limit") {
  const ScratchFolder root;
  root.write("proc/self/cgroup", "0::/x\n\n:::\nnonsense");
  for (const char* text : {"", "\n", "100000", "a b", "0 100000", "100000 0", "-5 100000", "100000 max"}) {
    CAPTURE(text);
    root.write("sys/fs/cgroup/x/cpu.max", text);
    EXPECT_FALSE(cgroup_cores(root.path()));
  }
}

TEST_CASE("usable_cores respects the affinity mask") {
  EXPECT(usable_cores() >= 1);
  int cores = 0;
  std::thread([&cores] {  // the mask belongs to the thread
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof before, &before) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    }
    if (sched_setaffinity(0, sizeof one, &one) == 0) cores = usable_cores();
  })
      .join();
  EXPECT(cores == 1);
}

// Sleeps, bound to one core, until it is killed.
class BoundProcess {
 public:
  explicit BoundProcess(int core) : pid_(fork()) {
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) pause();
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    bound_ = sched_setaffinity(pid_, sizeof one, &one) == 0;
  }
  ~BoundProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  BoundProcess(const BoundProcess&) = delete;
  BoundProcess& operator=(const BoundProcess&) = delete;
  int pid() const { return pid_; }
  bool bound() const { return bound_; }

 private:
  int pid_;
  bool bound_ = false;
};

TEST_CASE("processes that a launcher bound to a core each have all of these cores together") {
  cpu_set_t mine;
  REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
  std::vector<std::unique_ptr<BoundProcess>> processes;
  std::vector<int> pids;
  for (int cpu = 0; cpu < CPU_SETSIZE && pids.size() < 3; ++cpu) {
    if (!CPU_ISSET(cpu, &mine)) continue;
    processes.push_back(std::make_unique<BoundProcess>(cpu));
    REQUIRE(processes.back()->bound());
    pids.push_back(processes.back()->pid());
  }
  const int quota = usable_cores();  // of a container that may have fewer
  EXPECT(usable_cores(pids) == std::min(static_cast<int>(pids.size()), quota));
  EXPECT(usable_cores(std::array{pids[0], pids[0]}) == 1);  // a core that both have is one
  EXPECT(usable_cores(std::array{pids[0], 0}) == quota);    // this process has them all
}

}  // namespace
}  // namespace diji
