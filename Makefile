# roce-xdp. `make demo` shows what it does, `make test` that it does it; both need
# root, because they make network namespaces and load an XDP program.

GO      ?= go
OUT     ?= bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/roce-xdp/roce-xdp/internal/buildinfo.version=$(VERSION)

# Debian packages, by what needs them. `make build` and `make demo` need none.
PACKAGES_TEST     := gcc libc6-dev iproute2 iputils-ping util-linux procps ethtool bpftool tshark systemd
PACKAGES_GENERATE := clang-14 llvm-14 libbpf-dev
PACKAGES_BENCH    := iproute2 iperf3 sockperf
PACKAGES_INTEROP  := iproute2 util-linux nftables tcpdump tshark qemu-system-x86 cpio kmod xz-utils
PACKAGES          := $(sort $(PACKAGES_TEST) $(PACKAGES_GENERATE) $(PACKAGES_BENCH))

# What is tested: everything; packages that share memory between goroutines run
# under the race detector too.
PKGS ?= ./...
TIMEOUT ?= 8m
RACE ?= ./datapath/... ./internal/daemon/... ./internal/memory/... ./internal/queue/... ./test/netns/... ./verbs/...

GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := build
.PHONY: help deps build generate check-generated check-format test test-unit test-race test-interop conformance demo bench interop interop-perf fuzz soak lint clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

deps: ## install the Debian packages that tests, benchmarks and generation use, if missing
	@.ci/deps $(PACKAGES)

build: ## build the static binary bin/roce-xdp
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(OUT)/roce-xdp ./cmd/roce-xdp

generate: ## rebuild the BPF objects, the code made from them (needs clang 14) and the C header
	@.ci/deps $(PACKAGES_GENERATE)
	$(GO) generate ./bpf ./internal/abi

check-generated: ## fail unless the committed BPF objects are what the sources give
	cd bpf && $(GO) run ../cmd/bpf2go-gen -check

check-format: ## fail unless every Go file is as gofmt writes it
	@out="$$(gofmt -l .)"; \
	  if [ -n "$$out" ]; then echo "not formatted, run gofmt -w on:" >&2; echo "$$out" >&2; exit 1; fi

test: deps check-format check-generated ## everything: vet, unit tests, race detector, namespaces, a few rows against rdma_rxe
	$(GO) vet ./...
	@$(MAKE) --no-print-directory test-unit test-race test-interop

# A missing capability fails instead of skipping: root is demanded, not hoped for.
# Huge pages are where the machine lets their number be raised, as containers may not.
REQUIRE = root,netns,xdp,tshark,clang,systemd$(shell test -w /proc/sys/vm/nr_hugepages && echo ,hugepages)
test-unit test-race: export ROCE_XDP_REQUIRE = $(REQUIRE)

# `go test` with the same output; of everything, it also holds that each rule of
# docs/rules.md has a test that passed, and that docs/conformance.md says which.
CONFORMANCE := ./internal/conformance/cmd/conformance

test-unit:
	$(GO) run $(CONFORMANCE) test $(if $(filter ./...,$(PKGS)),-table) -count=1 -timeout $(TIMEOUT) $(PKGS)

test-race:
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout $(TIMEOUT) $(RACE)

# A few rows of `make interop`, in a minute; five more where the guest's image has
# to be made first.
test-interop: build
	@$(GO) build -o $(OUT)/interop ./test/rxe
	@OUT=$(OUT) .ci/interop $(PACKAGES_INTEROP)

conformance: ## write docs/conformance.md: which test proves which rule of docs/rules.md
	$(GO) run $(CONFORMANCE) write

demo: build ## RDMA between two namespaces over XDP and AF_XDP, in one command
	$(OUT)/roce-xdp demo

bench: build ## measure against raw AF_XDP and TCP; writes bench/out/results.json
	@.ci/deps $(PACKAGES_BENCH)
	$(GO) run ./bench

interop: build ## prove the stack against Linux's rdma_rxe in a virtual machine (docs/interop.md); INTEROP=-h for options
	@.ci/deps $(PACKAGES_INTEROP)
	$(GO) build -o $(OUT)/interop ./test/rxe
	@$(OUT)/interop $(INTEROP)

interop-perf: build ## measure our stack against Linux's rdma_rxe between two virtual machines (docs/interop.md)
	@.ci/deps $(PACKAGES_INTEROP)
	$(GO) build -o $(OUT)/interop ./test/rxe
	@$(OUT)/interop -perf $(INTEROP)

# Every fuzz target that there is, one after another, each with one worker. An
# input that fails stays in testdata/fuzz of its package, where `go test` runs it.
FUZZTIME ?= 1m
fuzz: ## run every fuzz target for FUZZTIME each, and report each
	@failed=0; \
	for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  targets=$$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz') || { echo "fuzz: $$pkg does not build" >&2; exit 1; }; \
	  for target in $$targets; do \
	    if out=$$($(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -parallel 1 $$pkg 2>&1); \
	    then echo "ok    $$pkg $$target: $$(echo "$$out" | grep -o 'execs: [0-9]*.*' | tail -n 1)"; \
	    else failed=1; echo "FAIL  $$pkg $$target"; echo "$$out"; fi; \
	  done; \
	done; exit $$failed

# Random programs against a model, for each seed from 1 on.
SEEDS ?= 20000
SOAK_MINUTES ?= 60
soak: export ROCE_XDP_SOAK = 1
soak: export ROCE_XDP_CM_CYCLES ?= 10000
soak: export TIMEOUT = 60m
soak: deps ## SEEDS simulations, every fuzz target, then the tests and their long variants for SOAK_MINUTES, until one fails
	$(GO) test -count=1 -timeout 0 ./internal/transport -run '^TestWorld$$' -seeds $(SEEDS)
	$(GO) test -count=1 -tags soak ./packaging
	@$(MAKE) --no-print-directory fuzz
	@end=$$(( $$(date +%s) + 60 * $(SOAK_MINUTES) )); n=0; \
	while [ $$(date +%s) -lt $$end ]; do n=$$((n + 1)); echo "soak: round $$n"; \
	  $(MAKE) --no-print-directory test-unit test-race || exit 1; done

lint: ## run the linters; downloads a pinned golangci-lint through the Go module proxy
	$(GO) run $(GOLANGCI) run ./...

clean: ## remove what was built
	rm -rf $(OUT) bench/out .ci/out
