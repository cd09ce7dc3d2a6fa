/* An NVTX v3 injection library for the tests: each domain call of a process as a JSON line.
 *
 *   gcc -shared -fPIC -O2 -o libnvtxlog.so nvtx_log.c -lpthread
 *   NVTX_INJECTION64_PATH=$PWD/libnvtxlog.so NVTX_LOG=out.jsonl PROGRAM
 *
 * The header-only NVTX code inside a program loads the library that the variable names at its first NVTX call; no GPU,
 * driver or tool is needed. The ABI (nvtxTypes.h, nvtxDetail/nvtxInit.h of NVTX 3) is declared by hand, as far as the
 * Python package nvtx uses it. Without NVTX_LOG the calls are taken and forgotten: the cheapest tool there can be.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct text { char *value; };
typedef struct { uint64_t schema; size_t size; const void *data; } blob;
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type; /* 0 none, 2 int64, 3 double, else the payload extension */
    int32_t payload_count;
    union { uint64_t u64; int64_t i64; double d; } payload;
    int32_t message_type; /* 3: a registered string */
    struct text *message;
} attributes;

static FILE *out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_number = 1;

static void quote(const char *s) {
    fputc('"', out);
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') { fputc('\\', out); fputc(c, out); }
        else if (c < 32) fprintf(out, "\\u%04x", c);
        else fputc(c, out);
    }
    fputc('"', out);
}
static int begin(const char *op, struct text *domain) {
    if (!out) return 0;
    pthread_mutex_lock(&lock);
    fprintf(out, "{\"pid\":%d,\"tid\":%ld,\"op\":\"%s\",\"domain\":", (int)getpid(), (long)syscall(SYS_gettid), op);
    quote(domain ? domain->value : "");
    return 1;
}
static void end(void) { fputs("}\n", out); fflush(out); pthread_mutex_unlock(&lock); }
static void put(const attributes *a) {
    if (!a) return;
    fprintf(out, ",\"category\":%u,\"color\":%u", a->category, a->color & 0xffffffu);
    if (a->payload_type == 2) fprintf(out, ",\"payload\":%lld", (long long)a->payload.i64);
    else if (a->payload_type == 3) fprintf(out, ",\"payload\":%.17g", a->payload.d);
    else if (a->payload_type) {
        const blob *b = (const blob *)(uintptr_t)a->payload.u64;
        fputs(",\"bytes\":\"", out);
        for (size_t k = 0; b && a->payload_count && b->data && k < b->size && k < 65536; k++)
            fprintf(out, "%02x", ((const unsigned char *)b->data)[k]);
        fputc('"', out);
    }
    fputs(",\"message\":", out);
    quote(a->message_type == 3 && a->message ? a->message->value : "");
}
static struct text *keep(const char *s) {
    struct text *t = malloc(sizeof *t);
    t->value = strdup(s ? s : "");
    return t;
}
static void d_mark(struct text *d, const attributes *a) { if (begin("mark", d)) { put(a); end(); } }
static uint64_t d_start(struct text *d, const attributes *a) {
    uint64_t id = __sync_fetch_and_add(&next_number, 1);
    if (begin("start", d)) { fprintf(out, ",\"id\":%llu", (unsigned long long)id); put(a); end(); }
    return id;
}
static void d_end(struct text *d, uint64_t id) {
    if (begin("end", d)) { fprintf(out, ",\"id\":%llu", (unsigned long long)id); end(); }
}
static __thread int depth;
static int d_push(struct text *d, const attributes *a) { if (begin("push", d)) { put(a); end(); } return depth++; }
static int d_pop(struct text *d) { if (begin("pop", d)) end(); return depth > 0 ? --depth : -2; }
static void d_category(struct text *d, uint32_t c, const char *s) {
    if (begin("category", d)) { fprintf(out, ",\"category\":%u,\"name\":", c); quote(s); end(); }
}
static void *d_register(struct text *d, const char *s) { (void)d; return keep(s); }
static void *d_create(const char *s) { struct text *d = keep(s); if (begin("domain", d)) end(); return d; }
static void d_destroy(struct text *d) { (void)d; }

typedef struct { size_t struct_size; uint64_t schema; const char *name, *about; uint64_t scope; const void *more; uint64_t id; } counter;
static uint64_t x_schema(struct text *d, const void *a) { (void)d; (void)a; return __sync_fetch_and_add(&next_number, 1); }
static uint8_t x_enabled(struct text *d) { (void)d; return 1; }
static uint64_t x_counter(struct text *d, const counter *c) {
    uint64_t id = __sync_fetch_and_add(&next_number, 1);
    if (begin("counter", d)) { fprintf(out, ",\"id\":%llu,\"name\":", (unsigned long long)id); quote(c->name); end(); }
    return id;
}
static void x_int(struct text *d, uint64_t id, int64_t v) {
    if (begin("sample", d)) { fprintf(out, ",\"id\":%llu,\"value\":%lld", (unsigned long long)id, (long long)v); end(); }
}
static void x_float(struct text *d, uint64_t id, double v) {
    if (begin("sample", d)) { fprintf(out, ",\"id\":%llu,\"value\":%.17g", (unsigned long long)id, v); end(); }
}

typedef void (*entry)(void);
typedef struct { size_t size; int (*table)(int module, entry ***slots, unsigned *n); } callbacks;
static void open_log(void) {
    const char *path = getenv("NVTX_LOG");
    if (!out && path && *path) out = fopen(path, "a");
}
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*get)(uint32_t)) {
    callbacks *found = (callbacks *)get(1);
    entry **slots;
    unsigned n;
    entry mine[] = {0, (entry)d_mark, (entry)d_start, (entry)d_end, (entry)d_push, (entry)d_pop, 0, 0,
                    (entry)d_category, 0, (entry)d_register, 0, (entry)d_create, 0, (entry)d_destroy, 0};
    open_log();
    if (!found || !found->table(5, &slots, &n)) return 0; /* module 5: the calls of domains */
    for (unsigned i = 1; i < n && i < sizeof mine / sizeof *mine; i++)
        if (mine[i] && slots[i]) *slots[i] = mine[i];
    return 1;
}
typedef struct { size_t id, n; intptr_t *slot; } segment;
typedef struct { uint16_t version, size, module, compatible; size_t segments; segment *segment; } extension;
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(extension *m) {
    open_log();
    if (!m->segments) return 0;
    if (m->module == 2) { /* payloads */
        if (m->segment[0].n > 0) m->segment[0].slot[0] = (intptr_t)x_schema;
        if (m->segment[0].n > 7) m->segment[0].slot[7] = (intptr_t)x_enabled;
        return 1;
    }
    if (m->module == 4) { /* counters */
        if (m->segment[0].n > 0) m->segment[0].slot[0] = (intptr_t)x_counter;
        if (m->segment[0].n > 1) m->segment[0].slot[1] = (intptr_t)x_int;
        if (m->segment[0].n > 2) m->segment[0].slot[2] = (intptr_t)x_float;
        return 1;
    }
    return 0;
}
