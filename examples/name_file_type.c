/* Names the type of files with the magika model: a whole program over diji.h, errors included.
 *
 *     name_file_type MODEL_DIR FILE...
 *
 * MODEL_DIR holds model.onnx and labels.txt, as scripts/fetch-model prints it. All files go through the model
 * as one batch. Exit codes are those of the command diji. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "diji/diji.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  kBlockBytes = 4096, /* read at each end of a file */
  kSideTokens = 1024, /* of each block the model sees these */
  kFileTokens = 2 * kSideTokens,
  kPaddingToken = 256, /* not a byte */
  kTokensMin = 8,      /* with fewer at the beginning, magika does not ask the model */
  kLabelsMax = 1024,
  kLabelBytesMax = 64,
  kFilesMax = 4096
};

typedef struct labels {
  char names[kLabelsMax][kLabelBytesMax];
  size_t count;
} labels;

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int fail_about(const char* path, const char* reason) {
  fprintf(stderr, "name_file_type: %s: %s\n", path, reason);
  return DIJI_STATUS_INPUT;
}

/* What Python's bytes.strip() takes away. */
static int is_blank(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Reads [offset, offset + bytes) of the file; 0 where that failed. */
static int read_at(FILE* file, long offset, unsigned char* block, size_t bytes) {
  return fseek(file, offset, SEEK_SET) == 0 && fread(block, 1, bytes, file) == bytes;
}

/* The first block without blanks before it, cut or padded behind to 1024 tokens; then the last block without
 * blanks after it, cut or padded in front. Returns a status; *is_short is set where the model would see too
 * little. */
static int read_tokens(const char* path, int32_t* tokens, int* is_short) {
  unsigned char first[kBlockBytes], last[kBlockBytes];
  FILE* file = fopen(path, "rb");
  if (file == NULL) return fail_about(path, strerror(errno));
  long size = -1;
  if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  const size_t bytes = size < kBlockBytes ? (size_t)(size < 0 ? 0 : size) : kBlockBytes;
  /* A folder opens too, and says it has LONG_MAX bytes. */
  const int is_read = size >= 0 && size < LONG_MAX && read_at(file, 0, first, bytes) &&
                      read_at(file, size - (long)bytes, last, bytes);
  const int reason = errno;
  fclose(file);
  if (!is_read) return fail_about(path, reason != 0 ? strerror(reason) : "it cannot be read");

  size_t begin = 0, end = bytes;
  while (begin < bytes && is_blank(first[begin])) ++begin;
  while (end > 0 && is_blank(last[end - 1])) --end;
  for (size_t i = 0; i < kSideTokens; ++i) {
    tokens[i] = begin + i < bytes ? first[begin + i] : kPaddingToken;
    tokens[kFileTokens - 1 - i] = i < end ? last[end - 1 - i] : kPaddingToken;
  }
  *is_short = tokens[kTokensMin - 1] == kPaddingToken;
  return DIJI_STATUS_OK;
}

static int read_labels(const char* folder, labels* result) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/labels.txt", folder);
  FILE* file = fopen(path, "r");
  if (file == NULL) return fail_about(path, strerror(errno));
  while (result->count < kLabelsMax && fgets(result->names[result->count], kLabelBytesMax, file) != NULL) {
    char* name = result->names[result->count++];
    name[strcspn(name, "\n")] = '\0';
  }
  fclose(file);
  return result->count > 0 ? DIJI_STATUS_OK : fail_about(path, "it holds no label");
}

static int fail_in_diji(diji_status_code status) {
  fprintf(stderr, "name_file_type: %s\n", diji_error_message());
  return (int)status;
}

/* The output must be f32 [rows, labels]; anything else is another model. */
static int check_scores(const diji_tensor_view* scores, size_t rows, const labels* names) {
  if (scores->dtype == DIJI_F32 && scores->rank == 2 && scores->shape[0] == (int64_t)rows &&
      scores->shape[1] == (int64_t)names->count) {
    return DIJI_STATUS_OK;
  }
  return fail_about(scores->name, "the model's output is not one score for each label of labels.txt");
}

static void print_answers(const diji_tensor_view* scores, char** paths, const int* is_short, size_t files,
                          const labels* names) {
  const float* row = scores == NULL ? NULL : scores->data;
  for (size_t i = 0; i < files; ++i) {
    if (is_short[i]) {
      printf("%-32s  too short to say\n", paths[i]);
      continue;
    }
    size_t best = 0;
    for (size_t label = 1; label < names->count; ++label) {
      if (row[label] > row[best]) best = label;
    }
    printf("%-32s  %-12s  %.3f\n", paths[i], names->names[best], (double)row[best]);
    row += names->count;
  }
}

/* Runs the model on `rows` rows of tokens and prints; with no row there is nothing to run. */
static int answer(diji_model* model, const int32_t* tokens, size_t rows, char** paths, const int* is_short,
                  size_t files, const labels* names, double* run_ms) {
  if (rows == 0) {
    print_answers(NULL, paths, is_short, files, names);
    return DIJI_STATUS_OK;
  }
  const int64_t shape[2] = {(int64_t)rows, kFileTokens};
  const diji_tensor_view input = {.name = diji_model_input_name(model, 0),
                                  .dtype = DIJI_I32,
                                  .shape = shape,
                                  .rank = 2,
                                  .data = tokens,
                                  .data_bytes = rows * kFileTokens * sizeof(int32_t)};
  diji_result* result = NULL;
  const double start = now_ms();
  diji_status_code status = diji_model_run(model, &input, 1, &result);
  *run_ms = now_ms() - start;
  if (status != DIJI_STATUS_OK) return fail_in_diji(status);
  diji_tensor_view scores;
  status = diji_result_output(result, 0, &scores);
  int code = status == DIJI_STATUS_OK ? check_scores(&scores, rows, names) : fail_in_diji(status);
  if (code == DIJI_STATUS_OK) print_answers(&scores, paths, is_short, files, names);
  diji_result_free(result);
  return code;
}

static int name_files(const char* folder, char** paths, size_t files, int32_t* tokens, int* is_short,
                      labels* names) {
  size_t rows = 0;
  int code = read_labels(folder, names);
  for (size_t i = 0; code == DIJI_STATUS_OK && i < files; ++i) {
    code = read_tokens(paths[i], tokens + rows * kFileTokens, &is_short[i]);
    if (!is_short[i]) ++rows;
  }
  if (code != DIJI_STATUS_OK) return code;

  char path[4096];
  snprintf(path, sizeof(path), "%s/model.onnx", folder);
  diji_model* model = NULL;
  const double start = now_ms();
  const diji_status_code status = diji_model_load(path, NULL, &model);
  const double load_ms = now_ms() - start;
  if (status != DIJI_STATUS_OK) return fail_in_diji(status);
  double run_ms = 0;
  code = answer(model, tokens, rows, paths, is_short, files, names, &run_ms);
  if (code == DIJI_STATUS_OK) {
    printf("load %.1f ms, run %.1f ms for %zu files\n%s\n", load_ms, run_ms, rows,
           diji_model_coverage(model));
  }
  diji_model_free(model);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 3 || argc - 2 > kFilesMax) {
    fprintf(stderr, "usage: name_file_type MODEL_DIR FILE... (at most %d files)\n", kFilesMax);
    return DIJI_STATUS_USAGE;
  }
  const size_t files = (size_t)argc - 2;
  int32_t* tokens = malloc(files * kFileTokens * sizeof(int32_t));
  int* is_short = calloc(files, sizeof(int));
  labels* names = calloc(1, sizeof(labels));
  int code = DIJI_STATUS_ENVIRONMENT;
  if (tokens == NULL || is_short == NULL || names == NULL) {
    fprintf(stderr, "name_file_type: no memory for %zu files\n", files);
  } else {
    code = name_files(argv[1], argv + 2, files, tokens, is_short, names);
  }
  free(tokens);
  free(is_short);
  free(names);
  if (code == DIJI_STATUS_OK && (fflush(stdout) != 0 || ferror(stdout)))
    code = fail_about("stdout", strerror(errno));
  return code;
}
