/* The first test of a device plugin: loads it, and bytes go to each device and come back as they were. */
#include "diji/device_plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { kBytes = 1000 };

static const diji_device_plugin_table* plugin;

static void log_line(void* context, int32_t level, const char* text) {
  (void)context, (void)level;
  fprintf(stderr, "%s\n", text);
}

static int ok(diji_status status, const char* what) {
  if (status != DIJI_OK) fprintf(stderr, "%s: status %d: %s\n", what, (int)status, plugin->last_error());
  return status == DIJI_OK;
}

/* To the device, on the device to another place, and back. */
static int round_trip(diji_device* device) {
  unsigned char sent[kBytes], received[kBytes];
  for (int i = 0; i < kBytes; ++i) sent[i] = (unsigned char)(i * 7 + 1);
  memset(received, 0, sizeof(received));
  diji_buffer* buffer = NULL;
  diji_stream* stream = NULL;
  if (!ok(plugin->alloc(device, 2 * kBytes, &buffer), "alloc")) return 0;
  const diji_place first = {buffer, 0}, second = {buffer, kBytes};
  int passed = ok(plugin->stream_new(device, &stream), "stream_new");
  if (passed) {
    passed = ok(plugin->copy_to_device(stream, first, sent, kBytes), "copy_to_device") &&
             ok(plugin->copy_on_device(stream, second, first, kBytes), "copy_on_device") &&
             ok(plugin->copy_to_host(stream, received, second, kBytes), "copy_to_host") &&
             ok(plugin->stream_sync(stream), "stream_sync");
    plugin->stream_free(stream);
  }
  plugin->free(device, NULL, buffer);
  if (passed && memcmp(sent, received, kBytes) != 0) {
    fprintf(stderr, "what came back is not what was sent\n");
    passed = 0;
  }
  return passed;
}

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  void* symbol = library == NULL ? NULL : dlsym(library, "diji_device_plugin");
  if (symbol == NULL) {
    fprintf(stderr, "usage: test LIBRARY: %s\n", argc == 2 ? dlerror() : "one is wanted");
    return 2;
  }
  const diji_device_plugin_table* (*entry)(void);
  memcpy(&entry, &symbol, sizeof(entry)); /* ISO C casts no object pointer to a function */
  plugin = entry();
  int32_t count = 0;
  if (!ok(plugin->device_count(&count), "device_count")) return 1;
  diji_host_services host = {.struct_size = sizeof(host), .log = log_line};
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    diji_device* device = NULL;
    if (!ok(plugin->open(ordinal, &host, &device), "open")) return 1;
    const int passed = round_trip(device);
    plugin->close(device);
    if (!passed) return 1;
    printf("%s:%d passed\n", plugin->name, (int)ordinal);
  }
  return count > 0 ? 0 : 1;
}
