// A graph as steps: launches and sizes, cut into segments where the host must look at data or run a body.
#pragma once

#include "codegen/lower.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/primitives.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace diji {

/// A piece of memory that values live in; a reshape shares its operand's.
struct Storage {
  enum class Home : std::uint8_t {
    arena,     ///< of the run, during one segment
    kept,      ///< the frame's own: read by later segments, by bodies, or by whoever runs this body
    sizes,     ///< the frame's own: written by the host when the sizes are known
    constant,  ///< the executable's
    input,     ///< of a body: where the one that runs it has it
    result,    ///< of a conditional or loop: where its body left it; of a custom operator: where the host did
  };
  Dim bytes;  ///< as an expression of the sizes
  int segment = 0;
  int first_step = 0;  ///< lifetime in the program's steps, inclusive; inputs begin at -1
  int last_step = 0;
  Home home = Home::arena;
  diji_place constant{};
  bool read = false;  ///< by a step, a body, the host or as an output
};

/// Where a piece of the run is computed: by a kernel that diji wrote, by one that came as text, by a
/// function.
enum class RunsAs : std::uint8_t { generated, native, host };

/// A launch as the sizes tell it: a Kernel (codegen/lower.h) without its text.
struct KernelUse {
  std::string entry;
  std::size_t module = 0;  ///< index into Executable::modules
  std::vector<Dim> sizes;
  Dim grid, local_bytes, flops, bytes;
};

/// One kernel launch, one list of sizes, or one of a collective's two ends.
struct Step {
  enum class Kind : std::uint8_t {
    launch,
    sizes,
    exchange,  ///< a collective begins, beside what follows; its places: operand and result
    join,      ///< what follows comes after the collective of `value`, and those before it in its group
  };
  Kind kind = Kind::launch;
  std::size_t group = 0;  ///< of a collective: index into Executable::groups
  std::string entry;
  std::size_t module = 0;             ///< index into Executable::modules
  std::vector<std::size_t> storages;  ///< places: inputs, the output, and the count of a compact
  std::vector<Dim> sizes;             ///< of a collective: its count, as of collective::Call, and bytes
  Dim grid, local_bytes, flops, bytes;
  ValueId value = ValueId::none;  ///< what it writes
  Shape elements;                 ///< for sizes: the numbers
  DType elements_dtype = DType::i64;
  RunsAs runs_as = RunsAs::generated;
  std::string operators;    ///< for messages: which operators of the model this computes
  std::int64_t number = 0;  ///< in Executable::operators: what an error word names it by
};

/// What the host does at the end of a segment.
struct Control {
  enum class Kind : std::uint8_t { observe, count, conditional, loop, custom };
  Kind kind = Kind::observe;
  NodeId node = NodeId::none;
  std::size_t count = 0;            ///< of a compact: the storage where its kernel writes how many
  std::vector<std::size_t> bodies;  ///< index into Executable::programs
  LoopForm form;
  /// Of a loop: the body's sizes change from iteration to iteration, or are told by its run.
  bool varies = false;
};

/// Steps that are planned together: everything inside is known before the first one runs.
struct Segment {
  std::vector<Step> steps;
  std::optional<Control> end;                   ///< none: the program's last
  std::vector<std::size_t> arena, kept, sizes;  ///< storages that begin here, by home
};

/// The model's graph or one body. A graph without sizes from data, branches and loops is one segment.
struct Program {
  std::shared_ptr<const Graph> graph;  ///< after the passes: ports, types and assumptions
  std::vector<Segment> segments;
  std::vector<Storage> storages;
  std::vector<std::size_t> storage_of;  ///< by ValueId

  std::size_t storage(ValueId id) const { return storage_of[static_cast<std::size_t>(id)]; }
};

/// Where some storages lie in one buffer, for one set of sizes.
struct MemoryPlan {
  std::vector<std::uint64_t> offsets;  ///< in the order of the storages asked for
  std::uint64_t bytes = 0;             ///< the peak, known before the run
};
/// Best fit by lifetime: the largest first, at the lowest offset free during its whole life (Pisarchyk and
/// Lee, 2020, greedy by size). Errors: a size that overflows.
Result<MemoryPlan> plan_memory(std::span<const Storage> storages, std::span<const std::size_t> which,
                               const Bindings& bindings, std::uint64_t alignment);

}  // namespace diji
