// CPU quotas read from made-up trees of both cgroup versions.
#include "base/cores.h"

#include "base/thread_pool.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/expect.h"

#include <sched.h>

#include <thread>

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

}  // namespace
}  // namespace diji
