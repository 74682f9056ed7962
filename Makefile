# Ebb. Newcomers need two targets: `make demo` and `make test`.
SHELL := /bin/sh
export PATH := $(HOME)/.cargo/bin:$(PATH)
CARGO ?= cargo
REPORT ?= ebb-report
# What scripts/site builds the documentation with, beside python3-sphinx.
SITE = /usr/lib/python3/dist-packages/myst_parser=python3-myst-parser /usr/lib/python3/dist-packages/furo=furo
# The demonstration runs what `make build` has made. Where there is nothing yet it makes a program that takes
# less time to compile: without the solver, and optimised only where packets pass; and plays a shorter day.
ifneq ($(wildcard target/release/ebb),)
DEMO = release
SECONDS ?= 60
else
DEMO = demo
LEAN = --no-default-features
SECONDS ?= 20
endif

.PHONY: demo demo-svg build wheel test tsan miri lint bench fuzz docs site figures install uninstall deb rpm tarball image packages package-test \
    reproduce release clean tools-build tools-solver tools-packages tools-test tools-site tools-bench

demo: tools-build ## Build, then run a compressed working day through the router and show what it saves
	@$(CARGO) build --profile $(DEMO) --quiet -p ebb-cli $(LEAN)
	@target/$(DEMO)/ebb demo --seconds $(SECONDS) --report $(REPORT)

demo-svg: ## The demonstration again, on a machine that has nothing else to do, and its picture into docs
	@$(MAKE) --no-print-directory demo SECONDS=240
	@cp $(REPORT)/summary.svg docs/demo.svg

build: tools-solver ## The command with everything, exact bounds of planners included
	@$(CARGO) build --release --quiet -p ebb-cli

test: tools-test ## Every test, fast ones first
	@scripts/test

tsan: ## The hand-over between threads under ThreadSanitizer (a nightly toolchain with rust-src)
	@EBB_LONG=1 RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/tsan $(CARGO) +nightly test -Zbuild-std \
	    --target $$(rustc -vV | sed -n 's/^host: //p') -p ebb-switch --lib threads_hand_everything_over

miri: ## Rings, packet memory and batches under Miri (a nightly toolchain with miri and rust-src)
	@for part in "ebb-graph --lib" "ebb-ports --lib -- afxdp::ring"; do \
	    PROPTEST_CASES=4 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" \
	    CARGO_TARGET_DIR=target/miri $(CARGO) +nightly miri test -p $$part || exit 1; done

lint: tools-solver ## Formatting, clippy and rustdoc without a warning; licences of dependencies
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	@$(CARGO) clippy -p ebb-cli --no-default-features --quiet -- -D warnings # what a first `make demo` builds
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	@scripts/deny

bench: tools-bench build ## All benchmarks, each beside its peer; results under bench/runs
	@bench/run

fuzz: tools-build ## Every fuzz target for FUZZ_SECONDS each (default 60)
	@fuzz/run $(or $(FUZZ_SECONDS),60)

docs: tools-build ## API documentation under target/doc
	@$(CARGO) doc --workspace --no-deps

site: tools-site ## The documentation as a site with a search, under target/site; a warning is an error
	@scripts/site

figures: tools-build ## The figures in docs, drawn again from the runs that are kept in bench/runs
	@scripts/figures

install: build tools-packages ## The command, its completion, manual and services under PREFIX (default /usr/local)
	@scripts/install $(or $(PREFIX),/usr/local)

uninstall: ## All that `make install` has put under PREFIX; /etc/ebb stays
	@scripts/install --remove $(or $(PREFIX),/usr/local)

deb: build tools-packages ## A Debian package of all that, and one of its symbols, under target/debian
	@scripts/deb

rpm: build tools-packages ## The same for systems with rpm, under target/rpm
	@scripts/rpm

tarball: build tools-packages ## The same for any Linux with a C library that is new enough, under target/published
	@scripts/tarball

image: build tools-packages ## A container image, made without a daemon and without the network, under target/image
	@scripts/image

packages: build tools-packages ## All four, the list of parts, and sums, under target/packages
	@scripts/packages

package-test: build tools-packages ## Packages installed, upgraded, removed and purged on a clean Debian (downloads it once)
	@scripts/require mmdebstrap=mmdebstrap lintian=lintian
	@scripts/package-test

reproduce: tools-packages ## The commit built and packed twice, in different places, and compared byte by byte
	@scripts/reproduce-build

release: ## Everything that is published of the tag TAG, under target/published
	@scripts/release $(TAG)

wheel: tools-solver ## A wheel of the Python package under target/wheels, for Linux with an older C library, too
	@scripts/wheel

clean:
	@$(CARGO) clean

tools-build:
	@scripts/require-rust
	@scripts/require clang=clang cc=gcc /usr/include/linux/bpf.h=linux-libc-dev

tools-solver: tools-build # the demonstration does without: the solver takes minutes to compile
	@scripts/require cmake=cmake c++=g++ pkg-config=pkg-config
	@scripts/solver

tools-packages: tools-solver
	@scripts/require objcopy=binutils dpkg-deb=dpkg rpmbuild=rpm umoci=umoci xz=xz-utils python3=python3 git=git

tools-test: tools-solver
	@scripts/require --optional /usr/bin/sphinx-build=python3-sphinx $(SITE) objdump=binutils dpkg-deb=dpkg rpmbuild=rpm umoci=umoci podman=podman newuidmap=uidmap lintian=lintian ip=iproute2 ethtool=ethtool scapy3=python3-scapy birdc=bird2 \
	    qemu-system-x86_64=qemu-system-x86 busybox=busybox-static cpio=cpio bwrap=bubblewrap systemd-analyze=systemd \
	    etcd=etcd-server ping=iputils-ping nsenter=util-linux iperf3=iperf3 script=bsdutils curl=curl python3=python3 openssl=openssl dig=bind9-dnsutils dnsmasq=dnsmasq-base \
	    gtlsserver=ngtcp2-server gtlsclient=ngtcp2-client nft=nftables iptables-legacy=iptables \
	    valgrind=valgrind tcpdump=tcpdump tshark=tshark strace=strace xz=xz-utils sqlite3=sqlite3 \
	    /usr/lib/ipsec/charon=strongswan-charon swanctl=strongswan-swanctl /usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so=libcharon-extra-plugins \
	    /usr/lib/ipsec/plugins/libstrongswan-openssl.so=libstrongswan-standard-plugins \
	    nfcapd=nfdump nfacctd=pmacct prometheus=prometheus promtool=prometheus slurmctld=slurm-wlm mpirun=openmpi-bin /usr/share/doc/python3-venv=python3-venv \
	    chromium=chromium chromedriver=chromium-driver /usr/lib/python3/dist-packages/selenium=python3-selenium \
	    opensm=opensm ibsim=ibsim-utils ibnetdiscover=infiniband-diags \
	    /usr/lib/python3/dist-packages/networkx=python3-networkx \
	    /usr/lib/python3/dist-packages/scipy/__init__.py=python3-scipy
	@scripts/python || true # Says what is missing; its tests are skipped then.

tools-site:
	@scripts/require /usr/bin/sphinx-build=python3-sphinx $(SITE)

tools-bench: tools-test
	@scripts/require --optional softflowd=softflowd dpdk-testpmd=dpdk-dev /usr/include/dpdk/rte_fib.h=libdpdk-dev
