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

// Whether the rank's side of input (output) is its own block alone.
bool gives_own_block(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::gather;
}
bool gets_own_block(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::scatter;
}
bool scales(const Call& call) { return call.reduction == Reduction::premul_sum && reduces(call.operation); }
std::int64_t granule_of(ElementType type) { return std::max<std::int64_t>(kLineBytes / bytes_of(type), 1); }
std::size_t index_of(std::int64_t value) { return static_cast<std::size_t>(value); }

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

Result<void> check_list(std::span<const std::int64_t> list, int world, std::int64_t most,
                        std::string_view name) {
  if (list.empty()) return {};
  if (std::ssize(list) != world) {
    return fail(ErrorCode::usage, "{} has {} entries; one for each of the {} ranks", name, list.size(),
                world);
  }
  for (int rank = 0; rank < world; ++rank) {
    const std::int64_t entry = list[static_cast<std::size_t>(rank)];
    if (entry < 0 || entry > most)
      return fail(ErrorCode::usage, "{} of rank {} is {}; from 0 to {}", name, rank, entry, most);
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
  // All ranks' blocks together, in bytes, are a number too.
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 64 / world;
  if (call.count < 0 || call.count > most) {
    return fail(ErrorCode::usage, "{}: a count of {}", name_of(call.operation), call.count);
  }
  if (has_root(call.operation) && (call.root < 0 || call.root >= world)) {
    return fail(ErrorCode::usage, "{}: root {} of {} ranks", name_of(call.operation), call.root, world);
  }
  if (reduces(call.operation) && !supports(call.reduction, call.type)) {
    return fail(ErrorCode::usage, "{}: {} has no meaning for {}", name_of(call.operation),
                name_of(call.reduction), name_of(call.type));
  }
  TRY(check_list(call.counts, world, most, "counts"));
  TRY(check_list(call.displacements, world, most, "displacements"));
  TRY(check_list(call.receive_counts, world, most, "receive_counts"));
  TRY(check_list(call.receive_displacements, world, most, "receive_displacements"));
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

// The blocks of the vector, as the sides that have all of them hold them.
void CallMemory::cut_blocks(const Call& call, const Plan& plan) {
  sent_.clear();
  if (has_blocks(call.operation)) {
    extents_of(sent_blocks(call), plan.request.world, sent_);
    extents_of(received_blocks(call), plan.request.world, received_);
    return;
  }
  const std::int64_t count = vector_count(call, plan.request.world);
  for (int block = 0; block < plan.blocks; ++block) {
    sent_.push_back(part_of({0, count}, plan.blocks, block, granule_of(call.type)));
  }
  received_ = sent_;
}

// Chunks of input and output, a side's own block at that side's start; and of partial, whose blocks lie
// behind each other.
void CallMemory::cut_chunks(const Call& call, const Plan& plan) {
  for (auto& chunks : chunks_) chunks.assign(index_of(plan.chunks()), Extent{});
  partials().resize(index_of(plan.chunks() * plan.partial_copies));
  const ChunkRange input = chunks_at(Place::input, plan);
  const ChunkRange output = chunks_at(Place::output, plan);
  const int slices = plan.request.slices;
  vector_ = 0;
  for (int block = 0; block < plan.blocks; ++block) {
    const Extent from = sent_[index_of(block)];
    const Extent to = received_[index_of(block)];
    for (int slice = 0; slice < slices; ++slice) {
      const int chunk = block * slices + slice;
      const auto part = [&](std::int64_t offset, std::int64_t count) {
        return part_of({offset, count}, slices, slice, granule_of(call.type));
      };
      if (input.contains(chunk))
        inputs()[index_of(chunk)] = part(gives_own_block(call.operation) ? 0 : from.offset, from.count);
      if (output.contains(chunk))
        outputs()[index_of(chunk)] = part(gets_own_block(call.operation) ? 0 : to.offset, to.count);
      partials()[index_of(chunk)] = part(vector_, to.count);
    }
    vector_ += to.count;
  }
  for (int chunk = plan.chunks(); chunk < plan.chunks() * plan.partial_copies; ++chunk) {
    const Extent first = partials()[index_of(chunk % plan.chunks())];
    partials()[index_of(chunk)] = {first.offset + vector_ * (chunk / plan.chunks()), first.count};
  }
}

// Errors: usage, where the two overlap otherwise.
Result<bool> CallMemory::is_in_place(const Call& call, const Plan& plan) const {
  const auto* input = static_cast<const std::byte*>(call.input);
  const auto* output = static_cast<const std::byte*>(call.output);
  const std::int64_t width = bytes_of(call.type);
  const std::byte* wanted_input = output;
  const std::byte* wanted_output = input;
  if (gets_own_block(call.operation)) wanted_output += sent_[index_of(plan.rank)].offset * width;
  if (gives_own_block(call.operation)) wanted_input += received_[index_of(plan.rank)].offset * width;
  const bool in_place = gives_own_block(call.operation) ? input == wanted_input : output == wanted_output;
  if (!in_place && overlap(input, end_of(chunks_[0]) * width, output, end_of(chunks_[1]) * width)) {
    return fail(ErrorCode::usage, "{}: input and output overlap and are not in place", text_of(call));
  }
  return in_place;
}

// The input multiplied by the factor, or kept from an output that is written over it.
Region CallMemory::copied_input(const Call& call, ElementType type) {
  const std::int64_t count = end_of(inputs());
  scaled_.resize(index_of(count * bytes_of(type)));
  const Operand source{static_cast<const std::byte*>(call.input), call.type};
  if (scales(call)) {
    multiply(type, scaled_.data(), source, count, call.factor);
  } else {
    convert(type, scaled_.data(), source, count);
  }
  return {scaled_.data(), type, inputs()};
}

Result<Regions> CallMemory::lay_out(const Call& call, const PreparedPlan& prepared) {
  const Plan& plan = prepared.plan();
  const ElementType partial_type = accumulator_of(call.type, call.exact);
  cut_blocks(call, plan);
  cut_chunks(call, plan);
  const bool in_place = TRY(is_in_place(call, plan));

  std::int64_t scratch_count = 0;
  chunks_[3].resize(index_of(plan.scratch_chunks));
  for (int chunk = 0; chunk < plan.scratch_chunks; ++chunk) {
    const std::int64_t count = partials()[index_of(chunk % plan.chunks())].count;
    chunks_[3][index_of(chunk)] = {scratch_count, count};
    scratch_count += count;
  }
  scratch_.resize(index_of(scratch_count * bytes_of(call.type)));

  Region input{const_cast<std::byte*>(static_cast<const std::byte*>(call.input)), call.type, inputs()};
  const Region output{static_cast<std::byte*>(call.output), call.type, outputs()};
  // Partial results lie in the output where its elements are of their type and it has every chunk that is
  // reduced here.
  Region partial{nullptr, partial_type, partials()};
  if (prepared.partial_may_be_output(in_place) && partial_type == call.type) {
    partial = {output.data, partial_type, outputs()};
  } else if (plan.uses_partial) {
    partial_.resize(index_of(vector_ * plan.partial_copies * bytes_of(partial_type)));
    partial.data = partial_.data();
  }
  if (scales(call)) input = copied_input(call, partial_type);
  if (call.operation == Operation::all_to_all && in_place) input = copied_input(call, call.type);
  return Regions{input, output, partial, Region{scratch_.data(), call.type, chunks_[3]}};
}

}  // namespace diji::collective
