# The only Makefile of epsilond, written by hand: libepsilon, the daemon, all tests, the benchmarks and the packaging.
# Sources are found by wildcard, headers by the compiler (-MMD), and libraries by pkg-config, which is called only when
# a recipe needs it, so that `make deps` works on a machine that has only make. Each flavour (release, debug, asan,
# tsan, verify, coverage, clang, fuzz) builds in its own build/<flavour>/.
#
#   make -s all      build/epsilond, build/libepsilon.{a,so}, build/epsilon.pc
#   make demo        install missing packages, build, run a server, send it three questions
#   make test        install missing packages, build, run all tests
#   make help        the other targets
#
# Variables: FLAVOUR, CC, WERROR= (for packagers: warnings do not stop the build), PREFIX, DESTDIR, FUZZ_SECONDS, SHARE,
# SOAK_MINUTES, PYTHON, JOBS (default: the number of cores), and B and BIN, the folders of objects and products.
#
# SPDX-License-Identifier: GPL-3.0-or-later

FLAVOUR ?= release
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
SHARE ?= 0/1
PYTHON ?= /usr/bin/python3
WERROR ?= -Werror
JOBS ?= $(shell nproc 2>/dev/null || echo 1)

VERSION := $(shell sed -n 's/^\#define EPS_VERSION "\(.*\)"/\1/p' lib/epsilon.h)
# The name that programs request from the loader. While the major version is 0, each minor version may change the
# structs of epsilon.h.
NUMBERS := $(subst ., ,$(VERSION))
SOVERSION := $(firstword $(NUMBERS))$(if $(filter 0,$(firstword $(NUMBERS))),.$(word 2,$(NUMBERS)))

# Objects are in B. The products of the release flavour are one folder higher, as documented.
B := build/$(FLAVOUR)
BIN := $(if $(filter release,$(FLAVOUR)),build,$(B))

# ---------------------------------------------------------------- Debian packages

DEPS_BUILD := gcc libc6-dev pkg-config libgsl-dev libfftw3-dev libopenblas-serial-dev liblapacke-dev \
              libsodium-dev libmicrohttpd-dev libgnutls28-dev libjansson-dev libsqlite3-dev libsystemd-dev \
              libseccomp-dev librabbitmq-dev librandom123-dev libsleef-dev libjs-chart.js
DEPS_TEST := libcmocka-dev g++ binutils python3 python3-pytest python3-pytest-timeout python3-pytest-xdist \
             python3-requests python3-numpy python3-yaml python3-jsonschema python3-venv python3-wheel ca-certificates curl jq \
             chromium chromium-driver python3-selenium openssl systemd python3-prometheus-client rabbitmq-server
DEPS_DEMO := curl jq
DEPS_LINT := clang-14 clang-tidy-14 libclang-rt-14-dev llvm-14
DEPS_FORMAT := clang-format-14
DEPS_IMAGE := buildah mmdebstrap
DEPS_BENCH := curl jq wrk python3 python3-venv python3-pytest python3-requests rabbitmq-server ca-certificates
DEPS ?= $(sort $(DEPS_BUILD) $(DEPS_TEST) $(DEPS_DEMO) $(DEPS_LINT) $(DEPS_FORMAT) $(DEPS_BENCH))

# ---------------------------------------------------------------- compiler flags

ifeq ($(origin CC),default)
CC := $(if $(filter clang fuzz,$(FLAVOUR)),clang-14,gcc)
endif

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wvla $(WERROR)
# Sums and products must be rounded as written, on every machine: no contraction, no -march, no -ffast-math.
LANGUAGE := -std=gnu17 -D_GNU_SOURCE -I. -fPIC -ffp-contract=off -fstack-protector-strong -fvisibility=hidden -pthread

OPT_release := -O2 -g -D_FORTIFY_SOURCE=2
OPT_clang := -O2 -g
OPT_debug := -Og -g3
OPT_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
OPT_verify := -O2 -g -DEPS_VERIFY
OPT_coverage := -Og -g --coverage -fprofile-update=atomic -DEPS_COVERAGE
OPT_fuzz := $(OPT_asan) -fsanitize=fuzzer-no-link
OPT := $(OPT_$(FLAVOUR))
ifeq ($(OPT),)
$(error FLAVOUR=$(FLAVOUR) is none of release, debug, clang, asan, tsan, verify, coverage, fuzz)
endif

# The serial OpenBLAS is used, whatever the alternatives of the machine select, because our own workers are the threads.
# The rpath makes the loader use it too, also for the BLAS of LAPACKE (hence not a runpath).
SERIAL = $(wildcard /usr/lib/*/openblas-serial/pkgconfig)
PKG = PKG_CONFIG_PATH="$(SERIAL):$$PKG_CONFIG_PATH" pkg-config
PKG_LIB := openblas lapacke gsl fftw3 libsodium
PKG_SERVER := libmicrohttpd gnutls jansson sqlite3 libsystemd libseccomp librabbitmq

# lazy,NAME,command: runs the command once, when NAME is first used.
lazy = $(eval $(1) := $$(shell $(2)))$($(1))
CFLAGS_LIB = $(call lazy,CFLAGS_LIB,$(PKG) --cflags $(PKG_LIB) $(PKG_SERVER))
LIBS_PKG = $(call lazy,LIBS_PKG,$(PKG) --libs $(PKG_LIB))
LIBS_SERVER = $(call lazy,LIBS_SERVER,$(PKG) --libs $(PKG_SERVER))
LIBS_CMOCKA = $(call lazy,LIBS_CMOCKA,$(PKG) --libs cmocka)
BLAS_DIR = $(call lazy,BLAS_DIR,$(PKG) --variable=libdir openblas)
LIBS_LIB = $(LIBS_PKG) -lsleef -lquadmath -Wl,--disable-new-dtags,-rpath,$(BLAS_DIR:/=) -lm

CFLAGS ?=
LDFLAGS ?=
COMPILE = $(CC) $(LANGUAGE) $(OPT) $(WARNINGS) $(CFLAGS_LIB) $(CFLAGS)
# Flags for single files: lib/numerics/lanes/lanes.c checks the processor before it calls these functions.
X86 = $(filter x86_64%,$(call lazy,MACHINE,$(CC) -dumpmachine))
FOR_lanes_avx2 = $(if $(X86),-mavx2 -mfma)
FOR_lanes_avx512 = $(if $(X86),-mavx512f -mavx512dq -mfma)
# The threads of lib share no line that is not run anyway, and its loops are long: their counts need not be exact.
ROOM_lib = $(if $(filter coverage,$(FLAVOUR)),-fprofile-update=single)
LINK = $(CC) -pthread $(OPT) -Wl,--as-needed -Wl,-z,relro,-z,now $(LDFLAGS)

# ---------------------------------------------------------------- sources

rooms = $(sort $(foreach d,$(1),$(wildcard $(d)/*.c $(d)/*/*.c $(d)/*/*/*.c $(d)/*/*/*/*.c)))
objects = $(patsubst %.c,$(B)/%.o,$(1))

LIB_C := $(filter-out $(if $(filter verify,$(FLAVOUR)),,%/verify.c),$(call rooms,lib))
API_C := $(call rooms,api)
SERVER_C := $(filter-out server/main.c,$(call rooms,server))
UNIT_C := $(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c)
PAPER_C := $(wildcard tests/paper/test_*.c)
TRUTH_C := $(wildcard tests/truth/test_*.c)
SOAK_C := $(wildcard tests/soak/test_*.c)
REPRODUCE_C := $(wildcard tests/paper/reproduce_*.c)
PROGRAM_C := $(UNIT_C) $(PAPER_C) $(TRUTH_C) $(SOAK_C)
HELPER_C := $(filter-out $(PROGRAM_C) $(REPRODUCE_C),$(wildcard $(addsuffix /*.c,$(addprefix tests/,generate unit unit/memory paper truth soak))))
FUZZ_C := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_C := $(wildcard tests/bench/bench_*.c)
EMBED := $(sort $(wildcard migrations/*.sql)) api/openapi.yaml $(sort $(wildcard server/dashboard/*))
# The chart library of the dashboard is a Debian package; it is built into the binary with its licence.
CHART ?= /usr/share/javascript/chart.js/chart.min.js
CHART_LICENCE ?= /usr/share/doc/libjs-chart.js/copyright
EMBED_CHART = server/dashboard/chart.min.js=$(CHART) server/dashboard/chart.licence.txt=$(CHART_LICENCE)

TESTS := $(patsubst %.c,$(B)/%,$(PROGRAM_C))
REPLAYS := $(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz/replay_%,$(FUZZ_C))
FUZZERS := $(patsubst %.c,$(B)/%,$(FUZZ_C))
PORTIONS := $(addprefix $(B)/tests/bench/portions_,short long) # the daemon, with portions of draws of other lengths
BENCHES := $(patsubst %.c,$(B)/%,$(BENCH_C)) $(PORTIONS)
REPRODUCERS := $(patsubst %.c,$(B)/%,$(REPRODUCE_C))
SAMPLED_C = $(call lazy,SAMPLED_C,grep -l 'getenv("REPRODUCE")' $(UNIT_C)) # unit tests that `make test` runs in part
REPRODUCTIONS = $(B)/tests/paper/reproduce_workers $(patsubst %.c,$(B)/%,$(TRUTH_C)) $(REPRODUCERS) $(patsubst %.c,$(B)/%,$(PAPER_C) $(SAMPLED_C)) # longest first
ARCHIVES := $(B)/libserver.a $(B)/libapi.a $(BIN)/libepsilon.a

# ---------------------------------------------------------------- products

.PHONY: all deps deps-build demo example trainers test check bench reproduce soak soak-attacks soak-faults soak-steady soak-jobs corpus mutants lint analyse format \
        format-check asan tsan asan-e2e tsan-e2e coverage verify fuzz fuzzers fuzz-corpus image-check install uninstall clean help programs
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

all: $(BIN)/libepsilon.a $(BIN)/libepsilon.so $(BIN)/epsilon.pc $(if $(wildcard server/main.c),$(BIN)/epsilond)

programs: all $(TESTS) $(REPLAYS) $(BIN)/faults.so

$(BIN)/epsilond: $(B)/server/main.o $(if $(filter coverage,$(FLAVOUR)),$(B)/tests/coverage/exit.o) $(ARCHIVES)
	$(LINK) $(if $(filter coverage,$(FLAVOUR)),-Wl$(comma)--wrap=_exit) -o $@ $^ $(LIBS_SERVER) $(LIBS_LIB)

$(BIN)/libepsilon.a: $(call objects,$(LIB_C))
$(B)/libapi.a: $(call objects,$(API_C))
$(B)/libserver.a: $(call objects,$(SERVER_C)) $(if $(wildcard server/embed.sh),$(B)/embedded.o)
$(B)/libhelpers.a: $(call objects,$(HELPER_C))
$(BIN)/libepsilon.a $(B)/libapi.a $(B)/libserver.a $(B)/libhelpers.a:
	@mkdir -p $(@D)
	rm -f $@
	gcc-ar rcs $@ $^

$(BIN)/libepsilon.so: $(call objects,$(LIB_C)) Makefile
	@mkdir -p $(@D)
	$(LINK) -shared -Wl,-soname,libepsilon.so.$(SOVERSION) $(if $(filter release,$(FLAVOUR)),-Wl$(comma)-z$(comma)defs) \
	    -o $@ $(filter %.o,$^) $(LIBS_LIB)
	ln -sf libepsilon.so $@.$(SOVERSION)

# Preloaded into the daemon by tests of faults; no sanitizer is in it, as those of the daemon come first.
$(BIN)/faults.so: tests/faults/shim.c Makefile
	$(CC) $(filter-out -D_FORTIFY_SOURCE=2,$(LANGUAGE)) -O2 $(WARNINGS) -shared $(LDFLAGS) -o $@ $<

comma := ,

# The libraries for the static archive are listed as we link them, as shared libraries: with --static, openblas.pc of
# Debian also requests the run-time library of Fortran, which only a static OpenBLAS needs.
$(BIN)/epsilon.pc: lib/epsilon.h Makefile
	@mkdir -p $(@D)
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' \
	    'Name: epsilon' 'Description: differential-privacy accounting for correlated noise and sampling' \
	    'Version: $(VERSION)' 'Libs: -L$${libdir} -lepsilon' 'Libs.private: $(LIBS_PKG) -lsleef -lquadmath -lm' \
	    'Cflags: -I$${includedir}' > $@

$(B)/embedded.c: server/embed.sh $(EMBED) $(CHART) $(CHART_LICENCE)
	@mkdir -p $(@D)
	sh server/embed.sh $@ $(EMBED) $(EMBED_CHART)

$(B)/embedded.o: $(B)/embedded.c $(B)/flags
	$(COMPILE) -MMD -MP -c -o $@ $<

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE) $(FOR_$(*F)) $(ROOM_$(firstword $(subst /, ,$*))) -MMD -MP -c -o $@ $<

# Rebuilds when the compiler or its flags change; checking takes one shell.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(COMPILE)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

-include $(wildcard $(addprefix $(B)/,*.d */*.d */*/*.d */*/*/*.d */*/*/*/*.d))

# ---------------------------------------------------------------- test programs

TEST_LIBS = $(LIBS_CMOCKA) $(LIBS_SERVER) $(LIBS_LIB)

$(TESTS): $(B)/%: $(B)/%.o $(B)/libhelpers.a $(ARCHIVES)
	$(LINK) -o $@ $^ $(TEST_LIBS)

# Test hooks: the creation of documents, a job that is not admitted, the rows that are read, and a library call that
# does not return.
$(B)/tests/unit/server/test_jobs: LDFLAGS += -Wl,--wrap=document_create
$(B)/tests/unit/server/test_groups: LDFLAGS += -Wl,--wrap=jobs_admit
$(B)/tests/unit/server/test_ranking: LDFLAGS += -Wl,--wrap=store_each_child
$(B)/tests/unit/server/test_watchdog: LDFLAGS += -Wl,--wrap=eps_solve,--wrap=eps_privacy_curve

# In these programs, tests/unit/memory/scarcity.c decides whether an allocation succeeds.
SCARCE := malloc calloc realloc strdup free fftw_alloc_real fftw_alloc_complex fftw_free fftw_sprint_plan \
          fftw_plan_dft_r2c_1d fftw_plan_dft_c2r_1d eps__fft_alloc_real eps__fft_alloc_complex gsl_root_fsolver_alloc \
          LAPACKE_dsyevd LAPACKE_dgesdd LAPACKE_dgecon LAPACKE_dgetri
$(filter $(B)/tests/unit/memory/test_%,$(TESTS)): LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,$(SCARCE))

# By Python, which make reproduce starts like the others.
$(B)/tests/paper/reproduce_workers: tests/paper/reproduce_workers.py
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec %s %s --build %s\n' $(PYTHON) $< $(BIN) > $@ && chmod +x $@

$(REPRODUCERS): $(B)/%: $(B)/%.o $(B)/libhelpers.a $(ARCHIVES)
	$(LINK) -o $@ $^ $(TEST_LIBS)

$(PORTIONS): $(B)/%: $(B)/server/main.o $(B)/%.o $(ARCHIVES)
	$(LINK) -o $@ $^ $(LIBS_SERVER) $(LIBS_LIB)

$(patsubst %.c,$(B)/%,$(BENCH_C)): $(B)/%: $(B)/%.o $(ARCHIVES)
	$(LINK) -o $@ $^ $(LIBS_SERVER) $(LIBS_LIB)

$(REPLAYS): $(B)/tests/fuzz/replay_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay.o $(ARCHIVES)
	$(LINK) -o $@ $^ $(LIBS_SERVER) $(LIBS_LIB)

$(FUZZERS): $(B)/%: $(B)/%.o $(ARCHIVES)
	$(LINK) -fsanitize=fuzzer -o $@ $^ $(LIBS_SERVER) $(LIBS_LIB)

# Recursive make, so that missing packages are installed before pkg-config is called. One job per core by default.
SUB = $(MAKE) --no-print-directory
PARALLEL = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))

# Installs the packages of DEPS that are missing; prints nothing if none is.
deps:
	@command -v dpkg-query >/dev/null || { echo "deps: not a Debian system; required packages: $(DEPS)"; exit 0; }; \
	have=$$(dpkg-query -W -f='$${Package} $${db:Status-Status}\n' $(DEPS) 2>/dev/null | sed -n 's/ installed$$//p'); \
	missing=; for p in $(DEPS); do \
	    printf '%s\n' "$$have" | grep -qxF -- "$$p" || missing="$$missing $$p"; done; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" != 0 ]; then \
	    echo "deps: missing packages; as root: apt-get install$$missing" >&2; exit 1; fi; \
	echo "deps: installing$$missing"; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    -o Dpkg::Use-Pty=0 $$missing >/dev/null

# The packages for building only, for images and packagers.
deps-build:
	@+$(SUB) deps DEPS="$(DEPS_BUILD)"

test:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) programs
	@+$(SUB) check

# All tests of this flavour, in order of cost; the last line has the totals.
check: programs
	@B=$(B) BIN=$(BIN) CC="$(CC)" PYTHON=$(PYTHON) sh tests/run.sh $(SUITE)

demo:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_DEMO)"
	@+$(SUB) $(PARALLEL) all
	@EPSILOND=$(BIN)/epsilond bash tests/demo.sh

# Trains a network with the noise of the service, in JAX; needs PyPI.
example:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) all
	@EPSILOND=$(BIN)/epsilond PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m pytest -p no:cacheprovider -q -s -rs tests/e2e/test_example.py

# The noise that the Python client draws in PyTorch and JAX, from PyPI. The wheels of PyTorch for the CPU alone, a tenth
# as large, have an index of their own; where it does not answer, those of PyPI do.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
trainers:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) all build/trainers/installed
	@EPSILOND=$(BIN)/epsilond PYTHONDONTWRITEBYTECODE=1 build/trainers/bin/python -m pytest -p no:cacheprovider -q -rs tests/trainers

build/trainers/installed: tests/trainers/requirements.txt
	$(PYTHON) -m venv --clear build/trainers
	index=; ! curl -sfIo /dev/null --max-time 20 $(TORCH_INDEX)/torch/ || index='--extra-index-url $(TORCH_INDEX)'; \
	    build/trainers/bin/pip install -q $$index -r $<
	cp $< $@

bench:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_BENCH)"
	@+$(SUB) $(PARALLEL) all $(BENCHES)
	-@+$(SUB) build/trainers/installed
	@$(PYTHON) tests/bench/bench.py --build $(BIN) --objects $(B)

# Compares our numbers with those of the papers, and random mechanisms with the true values: these tests in full, and
# the programs that take too long for `make test`, JOBS at a time.
reproduce:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) programs $(REPRODUCERS) $(B)/tests/paper/reproduce_workers
	@rm -f $(REPRODUCTIONS:=.failed); printf '%s\n' $(REPRODUCTIONS) | REPRODUCE=1 xargs -P $(JOBS) -I{} \
	    sh -c '{} >{}.out 2>&1 || touch {}.failed; cat {}.out'; \
	    failed=$$(for t in $(REPRODUCTIONS); do [ ! -e $$t.failed ] || echo $$t; done); set -- $$failed; \
	    echo "reproduce: $$(($(words $(REPRODUCTIONS)) - $$#)) passed, $$# failed$${failed:+: $$failed}"; [ $$# -eq 0 ]

# The unit tests, the corpus and the fast end-to-end tests, instrumented.
asan tsan:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) FLAVOUR=$@ programs
	@+$(SUB) FLAVOUR=$@ SUITE="unit soak fuzz e2e-sanitized" check

# All end-to-end tests, instrumented, which takes an hour or more.
asan-e2e tsan-e2e: %-e2e:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) FLAVOUR=$* all build/$*/faults.so
	@B=build/$* BIN=build/$* CC="$(CC)" PYTHON=$(PYTHON) E2E_TIMEOUT=14400 E2E_TEST_TIMEOUT=3600 sh tests/run.sh e2e

# Checks every claim of lib/numerics/verify.h while these tests run.
verify:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) FLAVOUR=verify programs
	@+$(SUB) FLAVOUR=verify SUITE="unit paper truth soak fuzz e2e-sanitized" check

# The lines that unit tests, corpus and end-to-end tests run; it fails if those are too few, or a test fails.
coverage:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) FLAVOUR=$@ programs
	@find build/$@ -name '*.gcda' -delete
	@+status=0; TEST_TIMEOUT=7200 E2E_TIMEOUT=14400 E2E_TEST_TIMEOUT=3600 GCOV_ERROR_FILE=/dev/null $(SUB) FLAVOUR=$@ SUITE="unit soak fuzz e2e" check || status=1; \
	    GCOV=$$($(CC) -print-prog-name=gcov) $(PYTHON) tests/coverage/coverage.py build/$@ && exit $$status

soak: soak-attacks soak-faults soak-steady soak-jobs

# Hostile clients: measures the memory of the server and the waiting time of others; a cluster of brokers that loses
# nodes; then the same with sanitizers.
soak-attacks:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) all
	@+$(SUB) $(PARALLEL) FLAVOUR=asan all
	@set -e; for d in build/epsilond build/asan/epsilond; do echo "attacks: $$d"; \
	    EPSILOND=$$d PYTHONDONTWRITEBYTECODE=1 timeout -s INT -k 60 7200 \
	        $(PYTHON) -m pytest -p no:cacheprovider -q --tb=short --ignore tests/soak/test_steady.py tests/soak; done

# What tests/e2e/test_faults.py samples, at length: kills, cuts of power, calls that fail, bits that flip.
soak-faults:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) all $(BIN)/faults.so
	@FAULTS_KILLS=1000 FAULTS_POWER=1000 FAULTS_CALLS=30 FAULTS_FLIPS=2000 FAULTS_CLOCK=10 \
	    EPSILOND=$(BIN)/epsilond PYTHONDONTWRITEBYTECODE=1 \
	    $(PYTHON) -m pytest -p no:cacheprovider -q --tb=short -o timeout=7200 tests/e2e/test_faults.py

# An hour of mixed load, or STEADY_MINUTES: memory, disk, threads and files are as after its first quarter.
soak-steady:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) all
	@EPSILOND=$(BIN)/epsilond PYTHONDONTWRITEBYTECODE=1 \
	    $(PYTHON) -m pytest -p no:cacheprovider -q -s --tb=short tests/soak/test_steady.py

# Random jobs with sanitizers, a hundred thousand in some hours: continues where the last run stopped, SOAK_MINUTES at a
# time.
soak-jobs: export SOAK_SECONDS ?= 0.3
soak-jobs:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) FLAVOUR=asan build/asan/tests/soak/test_jobs
	@UBSAN_OPTIONS=print_stacktrace=1 JOBS=$(JOBS) $(PYTHON) tests/soak/soak_jobs.py build/asan/tests/soak/test_jobs

# A refactoring must not change any number: this build and that of an earlier commit answer 500 jobs with the same
# documents.
BASE ?= HEAD~1
corpus:
	@+$(SUB) $(PARALLEL) all
	@set -e; at=build/corpus/$$(git rev-parse --short $(BASE)); \
	    [ -d $$at ] || { mkdir -p $$at; git archive $(BASE) | tar -x -C $$at; }; \
	    env -u MAKEFLAGS -u MAKELEVEL $(MAKE) -s -C $$at -j$(JOBS) all; \
	    JOBS=$(JOBS) $(PYTHON) tests/corpus/corpus.py $$at/build/epsilond $(BIN)/epsilond $(if $(WITHIN),--within $(WITHIN))

# One-line mutations of soundness-critical lines, each of which a test must detect. SHARE=I/N selects a part of them,
# MUTANTS those with these names.
mutants:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_TEST)"
	@+$(SUB) $(PARALLEL) programs
	@COMPILE='$(COMPILE)' LINK='$(LINK)' LIBS='$(TEST_LIBS)' B=$(B) ARCHIVES='$(ARCHIVES)' JOBS=$(JOBS) \
	    $(PYTHON) tests/mutants/mutants.py --share $(SHARE) $(MUTANTS)

fuzz:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_LINT)"
	@+$(SUB) $(PARALLEL) FLAVOUR=fuzz fuzzers
	@set -e; for f in $(FUZZ_C); do n=$$(basename $$f .c); c=$${n#fuzz_}; \
	    mkdir -p build/fuzz/corpus/$$c; echo "fuzz: $$c for $(FUZZ_SECONDS) s"; \
	    build/fuzz/tests/fuzz/$$n -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
	        -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus/$$c tests/fuzz/corpus/$$c; done

fuzzers: $(FUZZERS)

# The image, built from the Dockerfile by buildah and run without privileges on a read-only root. As root; the images are
# in build/image.
image-check:
	@+$(SUB) deps DEPS="$(DEPS_IMAGE)"
	@sh docker/image.sh build/image

# The layout of the sources, two compilers without warnings, the static analyser, and the syntax of the shell scripts.
lint:
	@+$(SUB) deps DEPS="$(sort $(DEPS_BUILD) $(DEPS_TEST) $(DEPS_LINT) $(DEPS_FORMAT))"
	@+$(SUB) format-check
	@+$(SUB) $(PARALLEL) -k FLAVOUR=clang all $(patsubst %,build/clang/%.o,$(basename $(PROGRAM_C) $(HELPER_C) $(FUZZ_C) $(BENCH_C)))
	@+$(SUB) tidy
	@set -e; for s in $(wildcard tests/*.sh tests/*/*.sh server/*.sh docker/*.sh .ci/run); do bash -n $$s; done
	@echo "lint: clean"

TIDY := $(patsubst %,$(B)/tidy/%.ok,$(LIB_C) $(API_C) $(SERVER_C) $(wildcard server/main.c))
.PHONY: tidy
tidy:
	@+$(SUB) $(PARALLEL) -k $(TIDY)

$(B)/tidy/%.ok: % .clang-tidy
	@mkdir -p $(@D)
	clang-tidy-14 --quiet $< -- $(LANGUAGE) $(filter-out -Werror,$(WARNINGS)) $(CFLAGS_LIB) $(FOR_$(*F)) 2>/dev/null
	@touch $@

# Two more analysers, slower and less exact than clang-tidy. What they may say all the same is here and in
# tests/cppcheck.txt, with the reason; anything else fails.
DEPS_ANALYSE := cppcheck
# gcc 12 does not see who owns what memcpy() copies the address of, or what hangs on a list or in an array; that a figure
# has its text inside; what the condition of a loop excludes; and what memcpy() and inet_pton() write.
ANALYSED_values := -Wno-analyzer-malloc-leak
ANALYSED_figures := -Wno-analyzer-null-argument
ANALYSED_groups := -Wno-analyzer-possible-null-argument
ANALYSED_connections := -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value
ANALYSED_head := -Wno-analyzer-malloc-leak
ANALYSED_wait := -Wno-analyzer-malloc-leak
ANALYSED_ranking := -Wno-analyzer-malloc-leak
# In lib it does not see that loops write all of an array before others read it, and that what is returned by the address
# of its first member is not lost; LeakSanitizer and tests/unit/memory look for what is.
ANALYSED_lib := -Wno-analyzer-use-of-uninitialized-value -Wno-analyzer-malloc-leak
# Nor that the status of a function that was told of NULL is not EPS_OK, and that what is searched for is there.
$(foreach name,banded_inverse blt compose lognormal members registry scalar shuffled whole,$(eval \
    ANALYSED_$(name) := -Wno-analyzer-null-dereference -Wno-analyzer-possible-null-dereference))
ANALYSED := $(patsubst %,$(B)/analysed/%.ok,$(LIB_C) $(API_C) $(SERVER_C) $(wildcard server/main.c))
analyse:
	@+$(SUB) deps DEPS="$(DEPS_BUILD) $(DEPS_ANALYSE)"
	@cppcheck --quiet -j$(JOBS) --std=c11 --enable=warning,performance,portability --error-exitcode=1 -I. \
	    -D_GNU_SOURCE -D__x86_64__ --suppress=missingIncludeSystem --suppressions-list=tests/cppcheck.txt lib api server
	@+$(SUB) $(PARALLEL) -k analysed
	@echo "analyse: clean"

.PHONY: analysed
analysed: $(ANALYSED)

$(B)/analysed/%.ok: % $(B)/flags
	@mkdir -p $(@D)
	$(COMPILE) $(FOR_$(basename $(*F))) -fanalyzer $(ANALYSED_$(firstword $(subst /, ,$*))) $(ANALYSED_$(basename $(*F))) -c -o /dev/null $<
	@touch $@

SOURCES = $(shell find lib api server tests -name '*.[ch]')
format:
	@+$(SUB) deps DEPS="$(DEPS_FORMAT)"
	clang-format-14 -i $(SOURCES)

format-check:
	@+$(SUB) deps DEPS="$(DEPS_FORMAT)"
	@clang-format-14 --dry-run -Werror $(SOURCES)

# ---------------------------------------------------------------- installing

UNITS := epsilond.service epsilond.socket epsilond-worker.service
INSTALLED := bin/epsilond include/epsilon.h lib/libepsilon.a lib/libepsilon.so.$(VERSION) lib/libepsilon.so.$(SOVERSION) \
             lib/libepsilon.so lib/pkgconfig/epsilon.pc $(addprefix lib/systemd/system/,$(UNITS))
DESTINATION = $(if $(filter /%,$(PREFIX)),$(DESTDIR)$(PREFIX),$(error PREFIX=$(PREFIX) must be an absolute path))

# epsilon.pc was made for the prefix of the build; the installed one names its own, as the unit of systemd does. The cache of the loader belongs to
# root and covers only the standard folders.
install: all
	install -d $(addprefix $(DESTINATION)/,bin include lib/pkgconfig lib/systemd/system)
	install -m 755 $(BIN)/epsilond $(DESTINATION)/bin/
	install -m 644 lib/epsilon.h $(DESTINATION)/include/
	install -m 644 $(BIN)/libepsilon.a $(DESTINATION)/lib/
	install -m 755 $(BIN)/libepsilon.so $(DESTINATION)/lib/libepsilon.so.$(VERSION)
	ln -sf libepsilon.so.$(VERSION) $(DESTINATION)/lib/libepsilon.so.$(SOVERSION)
	ln -sf libepsilon.so.$(SOVERSION) $(DESTINATION)/lib/libepsilon.so
	sed 's|^prefix=.*|prefix=$(PREFIX)|' $(BIN)/epsilon.pc > $(DESTINATION)/lib/pkgconfig/epsilon.pc
	chmod 644 $(DESTINATION)/lib/pkgconfig/epsilon.pc
	for unit in $(UNITS); do \
	    sed 's|@BINDIR@|$(PREFIX)/bin|' docker/systemd/$$unit > $(DESTINATION)/lib/systemd/system/$$unit && \
	    chmod 644 $(DESTINATION)/lib/systemd/system/$$unit || exit 1; done
	@$(LOADER); [ -n "$(DESTDIR)" ] || known || \
	    echo 'install: for programs to find libepsilon.so.$(SOVERSION): LD_LIBRARY_PATH=$(PREFIX)/lib, or as root that' \
	        'folder in /etc/ld.so.conf.d and ldconfig'

uninstall:
	rm -f $(addprefix $(DESTINATION)/,$(INSTALLED))
	@$(LOADER)

LOADER = PATH=$$PATH:/usr/sbin:/sbin; [ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig; \
    known() { ldconfig -p | grep -qF ' $(PREFIX)/lib/libepsilon.so.$(SOVERSION)'; }

clean:
	rm -rf build

help:
	@printf '%s\n' \
	    'all        build/epsilond, build/libepsilon.{a,so}, build/epsilon.pc' \
	    'deps       install the missing Debian packages (root)' \
	    'demo       run a server and send it three questions' \
	    'example    train a small network with noise from the service (needs PyPI)' \
	    'trainers   test the noise of the Python client in PyTorch and JAX (needs PyPI)' \
    'test       run all tests; ends with "N passed, N failed"' \
	    'bench      compare with dp_accounting, and measure requests per second' \
	    'reproduce  compare with the numbers of papers, and random mechanisms with true values' \
	    'soak       hostile clients, lost brokers, faults, an hour of mixed load, and 100,000 random jobs' \
	    'corpus     compare 500 documents with the build of BASE (HEAD~1), after a refactoring' \
	    'mutants    mutated lines that tests must detect (SHARE=0/1)' \
	    'lint       format-check, clang with -Werror, clang-tidy' \
	    'analyse    cppcheck, gcc -fanalyzer' \
    'format     run clang-format on all sources (format-check only checks)' \
	    'asan tsan  unit, corpus and short end-to-end tests with sanitizers' \
	    'asan-e2e tsan-e2e  all end-to-end tests with sanitizers' \
    'verify     the tests, with every bound compared with quadruple precision' \
	    'coverage   the lines that tests run: 90% of lib and api, 85% of server' \
	    'fuzz       run every fuzz target for FUZZ_SECONDS (60)' \
	    'image-check  build the image from the Dockerfile and run it (root, buildah)' \
    'install    install into DESTDIR, PREFIX (/usr/local); uninstall removes it' \
	    'clean      remove build/'
