// Cuts the user's buffers into the chunks of a plan and checks what the user said about them.
#include "collective/call.h"

#include "base/checked.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace diji::collective {
namespace {

constexpr std::int64_t kLineBytes = 64;

bool has_blocks(Operation operation) {
  switch (operation) {
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all: return true;
    default: return false;
  }
}

struct Blocks {
  std::span<const std::int64_t> counts;
  std::span<const std::int64_t> displacements;
  std::int64_t count = 0;  ///< of each, where there is no list

  std::int64_t count_of(int block) const {
    return counts.empty() ? count : counts[static_cast<std::size_t>(block)];
  }
};

Blocks sent_blocks(const Call& call) { return {call.counts, call.displacements, call.count}; }
Blocks received_blocks(const Call& call) {
  if (call.operation != Operation::all_to_all) return sent_blocks(call);
  return {call.receive_counts, call.receive_displacements, call.count};
}

// All blocks behind each other, or where the displacements say.
void extents_of(const Blocks& blocks, int world, std::vector<Extent>& extents) {
  extents.resize(static_cast<std::size_t>(world));
  std::int64_t at = 0;
  for (int block = 0; block < world; ++block) {
    Extent& extent = extents[static_cast<std::size_t>(block)];
    extent.count = blocks.count_of(block);
    extent.offset = blocks.displacements.empty() ? at : blocks.displacements[static_cast<std::size_t>(block)];
    at += extent.count;
  }
}

Result<void> check_list(std::span<const std::int64_t> list, int world, std::string_view name) {
  if (list.empty()) return {};
  if (std::ssize(list) != world) {
    return fail(ErrorCode::usage, "{} has {} entries; one for each of the {} ranks", name, list.size(),
                world);
  }
  for (int rank = 0; rank < world; ++rank) {
    if (list[static_cast<std::size_t>(rank)] < 0) {
      return fail(ErrorCode::usage, "{} of rank {} is {}; not below 0", name, rank,
                  list[static_cast<std::size_t>(rank)]);
    }
  }
  return {};
}

bool overlap(const std::byte* a, std::int64_t a_bytes, const std::byte* b, std::int64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

std::int64_t end_of(std::span<const Extent> extents) {
  std::int64_t end = 0;
  for (const Extent& extent : extents)
    end = std::max(end, extent.count == 0 ? 0 : extent.offset + extent.count);
  return end;
}

}  // namespace

std::string text_of(const CallRecord& record) {
  if (record.operation == Operation::barrier) return "barrier";
  std::string text =
      fmt::format("{} of {} {}", name_of(record.operation), record.count, name_of(record.type));
  if (reduces(record.operation)) text += fmt::format(", {}", name_of(record.reduction));
  if (has_root(record.operation)) text += fmt::format(", root {}", record.root);
  return text;
}

std::string text_of(const Call& call) {
  return text_of(CallRecord{.operation = call.operation,
                            .reduction = call.reduction,
                            .type = call.type,
                            .root = call.root,
                            .count = call.count});
}

std::int64_t vector_count(const Call& call, int world) {
  if (call.operation == Operation::barrier) return 0;
  if (!has_blocks(call.operation)) return call.count;
  std::int64_t count = 0;
  for (int block = 0; block < world; ++block) count += sent_blocks(call).count_of(block);
  return count;
}

std::int64_t input_count(const Call& call, int rank, int world) {
  const bool is_root = rank == call.root;
  switch (call.operation) {
    case Operation::barrier:
    case Operation::receive: return 0;
    case Operation::broadcast: return is_root ? call.count : 0;
    case Operation::all_gather:
    case Operation::gather: return sent_blocks(call).count_of(rank);
    case Operation::scatter: return is_root ? vector_count(call, world) : 0;
    default: return vector_count(call, world);
  }
}

std::int64_t output_count(const Call& call, int rank, int world) {
  const bool is_root = rank == call.root;
  switch (call.operation) {
    case Operation::barrier:
    case Operation::send: return 0;
    case Operation::reduce: return is_root ? call.count : 0;
    case Operation::gather: return is_root ? vector_count(call, world) : 0;
    case Operation::reduce_scatter:
    case Operation::scatter: return sent_blocks(call).count_of(rank);
    case Operation::all_to_all: {
      std::int64_t count = 0;
      for (int block = 0; block < world; ++block) count += received_blocks(call).count_of(block);
      return count;
    }
    default: return vector_count(call, world);
  }
}

Extent part_of(Extent whole, int parts, int index, std::int64_t granule) {
  const std::int64_t granules = (whole.count + granule - 1) / granule;
  const std::int64_t each = granules / parts;
  const std::int64_t longer = granules % parts;  // the first ones have one more
  const std::int64_t begin = (index * each + std::min<std::int64_t>(index, longer)) * granule;
  const std::int64_t end = ((index + 1) * each + std::min<std::int64_t>(index + 1, longer)) * granule;
  return {whole.offset + std::min(begin, whole.count),
          std::min(end, whole.count) - std::min(begin, whole.count)};
}

Result<void> check_call(const Call& call, int rank, int world) {
  constexpr std::int64_t kCountMax = std::numeric_limits<std::int64_t>::max() / 64;
  if (call.count < 0 || call.count > kCountMax / world) {
    return fail(ErrorCode::usage, "{}: a count of {}", name_of(call.operation), call.count);
  }
  if (has_root(call.operation) && (call.root < 0 || call.root >= world)) {
    return fail(ErrorCode::usage, "{}: root {} of {} ranks", name_of(call.operation), call.root, world);
  }
  if (reduces(call.operation) && !supports(call.reduction, call.type)) {
    return fail(ErrorCode::usage, "{}: {} has no meaning for {}", name_of(call.operation),
                name_of(call.reduction), name_of(call.type));
  }
  TRY(check_list(call.counts, world, "counts"));
  TRY(check_list(call.displacements, world, "displacements"));
  TRY(check_list(call.receive_counts, world, "receive_counts"));
  TRY(check_list(call.receive_displacements, world, "receive_displacements"));
  if (call.operation == Operation::all_to_all && call.counts.empty() != call.receive_counts.empty()) {
    return fail(ErrorCode::usage, "all_to_all: counts of one direction without those of the other");
  }
  if (input_count(call, rank, world) > 0 && call.input == nullptr) {
    return fail(ErrorCode::usage, "{}: no input", name_of(call.operation));
  }
  if (output_count(call, rank, world) > 0 && call.output == nullptr) {
    return fail(ErrorCode::usage, "{}: no output", name_of(call.operation));
  }
  return {};
}

Result<Regions> CallMemory::lay_out(const Call& call, const PreparedPlan& prepared) {
  const Plan& plan = prepared.plan();
  const int world = plan.request.world;
  const int slices = plan.request.slices;
  const ElementType partial_type = accumulator_of(call.type, call.exact);
  const std::int64_t granule = std::max<std::int64_t>(kLineBytes / bytes_of(call.type), 1);

  // The blocks of the vector as the side that has all of them holds them, and one side's own block at its own
  // start.
  std::vector<Extent>& sent = sent_;
  std::vector<Extent>& received = received_;
  sent.clear();
  if (has_blocks(call.operation)) {
    extents_of(sent_blocks(call), world, sent);
    extents_of(received_blocks(call), world, received);
  } else {
    for (int block = 0; block < plan.blocks; ++block) {
      sent.push_back(part_of({0, vector_count(call, world)}, plan.blocks, block, granule));
    }
    received = sent;
  }
  std::int64_t longest = 0;
  std::int64_t vector = 0;  // of `partial`, whose blocks lie behind each other
  Regions regions;
  const bool one_in = call.operation == Operation::all_gather || call.operation == Operation::gather;
  const bool one_out = call.operation == Operation::reduce_scatter || call.operation == Operation::scatter;
  for (auto& chunks : chunks_) chunks.assign(static_cast<std::size_t>(plan.chunks()), Extent{});
  chunks_[2].resize(static_cast<std::size_t>(plan.chunks() * plan.partial_copies));
  const ChunkRange own_input = chunks_at(Place::input, plan);
  const ChunkRange own_output = chunks_at(Place::output, plan);
  for (int block = 0; block < plan.blocks; ++block) {
    const Extent from = sent[static_cast<std::size_t>(block)];
    const Extent to = received[static_cast<std::size_t>(block)];
    for (int slice = 0; slice < slices; ++slice) {
      const int chunk = block * slices + slice;
      const auto put = [&](Place place, Extent whole, std::int64_t offset) {
        chunks_[static_cast<std::size_t>(place)][static_cast<std::size_t>(chunk)] =
            part_of({offset, whole.count}, slices, slice, granule);
      };
      if (own_input.contains(chunk)) put(Place::input, from, one_in ? 0 : from.offset);
      if (own_output.contains(chunk)) put(Place::output, to, one_out ? 0 : to.offset);
      put(Place::partial, to, vector);
      longest = std::max(longest, part_of({0, std::max(from.count, to.count)}, slices, slice, granule).count);
    }
    vector += to.count;
  }

  for (int chunk = plan.chunks(); chunk < plan.chunks() * plan.partial_copies; ++chunk) {
    const Extent first = chunks_[2][static_cast<std::size_t>(chunk % plan.chunks())];
    chunks_[2][static_cast<std::size_t>(chunk)] = {first.offset + vector * (chunk / plan.chunks()),
                                                   first.count};
  }

  auto& input = regions[static_cast<std::size_t>(Place::input)];
  auto& output = regions[static_cast<std::size_t>(Place::output)];
  auto& partial = regions[static_cast<std::size_t>(Place::partial)];
  auto& scratch = regions[static_cast<std::size_t>(Place::scratch)];
  input = {const_cast<std::byte*>(static_cast<const std::byte*>(call.input)), call.type, chunks_[0], {}};
  output = {static_cast<std::byte*>(call.output), call.type, chunks_[1], {}};
  const std::int64_t input_bytes = end_of(chunks_[0]) * bytes_of(call.type);
  const std::int64_t output_bytes = end_of(chunks_[1]) * bytes_of(call.type);
  bool in_place = call.input == call.output;
  if (one_out && own_input.count > 0) {
    in_place =
        output.data == input.data + sent[static_cast<std::size_t>(plan.rank)].offset * bytes_of(call.type);
  } else if (one_in && own_output.count > 0) {
    in_place = input.data ==
               output.data + received[static_cast<std::size_t>(plan.rank)].offset * bytes_of(call.type);
  }
  if (!in_place && overlap(input.data, input_bytes, output.data, output_bytes)) {
    return fail(ErrorCode::usage, "{}: input and output overlap and are not in place", text_of(call));
  }

  scratch_.resize(static_cast<std::size_t>(plan.scratch_chunks * longest * bytes_of(call.type)));
  chunks_[3].resize(static_cast<std::size_t>(plan.scratch_chunks));
  for (int chunk = 0; chunk < plan.scratch_chunks; ++chunk)
    chunks_[3][static_cast<std::size_t>(chunk)] = {chunk * longest, longest};
  scratch = {scratch_.data(), call.type, chunks_[3], {}};

  // Partial results lie in the output where its elements are of their type and it has every chunk that is
  // reduced here.
  if (prepared.partial_may_be_output(in_place) && partial_type == call.type) {
    partial = {output.data, partial_type, chunks_[1], {}};
  } else if (plan.uses_partial) {
    partial_.resize(static_cast<std::size_t>(vector * plan.partial_copies * bytes_of(partial_type)));
    partial = {partial_.data(), partial_type, chunks_[2], {}};
  } else {
    partial = {nullptr, partial_type, chunks_[2], {}};
  }
  const bool copies_input = call.operation == Operation::all_to_all && in_place;
  const bool scales = call.reduction == Reduction::premul_sum && reduces(call.operation);
  if (scales || copies_input) {
    const ElementType type = scales ? partial_type : call.type;
    const std::int64_t count = end_of(chunks_[0]);
    scaled_.resize(static_cast<std::size_t>(count * bytes_of(type)));
    const Operand source{input.data, call.type};
    if (scales) {
      multiply(type, scaled_.data(), source, count, call.factor);
    } else {
      convert(type, scaled_.data(), source, count);
    }
    input = {scaled_.data(), type, chunks_[0], {}};
  }
  return regions;
}

}  // namespace diji::collective
