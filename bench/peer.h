/* What the programs on DPDK's side of the benchmarks share: ending, reading inputs, time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

static void die(const char *what)
{
	fprintf(stderr, "DPDK's side: %s\n", what);
	exit(1);
}

/* The records of DIRECTORY/NAME, aligned to a cache line, with one cache line to spare behind them. */
static void *load(const char *directory, const char *name, size_t record, size_t *records)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FILE *file = fopen(path, "rb");
	if (!file)
		die(path);
	fseek(file, 0, SEEK_END);
	size_t size = ftell(file);
	rewind(file);
	void *data = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
	if (!data || fread(data, 1, size, file) != size)
		die(path);
	fclose(file);
	*records = size / record;
	return data;
}

/* Seconds that this thread has run. */
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}
