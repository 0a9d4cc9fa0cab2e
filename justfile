# Every task of the project. `.ci/run` says which of them are the gate and which the night's parts.

set shell := ["bash", "-euo", "pipefail", "-c"]

name := "external-dns-cloudflare-tunnel-webhook"
target_dir := env("CARGO_TARGET_DIR", "target")
static_target := "x86_64-unknown-linux-musl"
static_binary := target_dir / static_target / "release" / name
arm_target := "aarch64-unknown-linux-musl"
arm_binary := target_dir / arm_target / "release" / name
# What a release consists of.
release_files := target_dir / "release-files"

cost_binary := target_dir / static_target / "release/cost"
cost_now := target_dir / "cost.txt"
cost_of_release := "tests/cost/last-release.txt"

actionlint_version := "v1.7.12"

# The limit and the aim of the x86_64 static binary, which docs/operations.md states beside its size.
size_limit_bytes := "3600000"
size_aim_bytes := "2500000"

# List every task.
[private]
default:
    @just --list --unsorted

# What annotations change at an emulator of Cloudflare, printed (needs a C compiler).
[group('start here')]
demo:
    cargo run --locked --example demo

# The webhook's image for amd64, as localhost/<name>:amd64 (needs musl-tools and buildah).
[group('start here')]
image-amd64: static
    release/image-of '{{ static_binary }}' amd64 "$(cargo pkgid --package {{ name }} --offline | sed 's/.*[#@]//')"

# The same for arm64, as localhost/<name>:arm64 (needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and buildah).
[group('start here')]
image-arm64: static-aarch64
    release/image-of '{{ arm_binary }}' arm64 "$(cargo pkgid --package {{ name }} --offline | sed 's/.*[#@]//')"

# The README's quick start, played block by block on a real API server and the emulator; prints the times (needs Go).
[group('start here')]
quickstart: (go-test 'cluster' '-timeout 60m -run QuickStart')

# Compile everything, tests and benches included.
[group('build')]
build:
    cargo build --workspace --all-targets --locked

# The static x86_64 binary that is shipped (needs musl-tools).
[group('build')]
static:
    cargo build --release --locked --target {{ static_target }} --bin {{ name }}

# The static aarch64 binary (needs gcc-aarch64-linux-gnu and libc6-dev-arm64-cross for ring's C code).
[group('build')]
static-aarch64:
    CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc \
    cargo build --release --locked --target {{ arm_target }} --bin {{ name }}

# Size of the static binary; fails above the limit, or if it asks for a dynamic loader.
[group('build')]
size: static
    #!/usr/bin/env bash
    set -euo pipefail
    bytes=$(stat --format %s '{{ static_binary }}')
    printf '%s: %d bytes (aim %d, limit %d)\n' '{{ static_binary }}' "$bytes" {{ size_aim_bytes }} {{ size_limit_bytes }}
    # ldd exits 1 for "not a dynamic executable" and 0 for "statically linked": the words count.
    linkage=$(ldd '{{ static_binary }}' 2>&1 || true)
    echo "ldd: $(echo "$linkage" | xargs)"
    if ! grep --quiet --extended-regexp 'statically linked|not a dynamic executable' <<<"$linkage"; then
        echo 'error: the binary is not static' >&2
        exit 1
    fi
    if (( bytes > {{ size_limit_bytes }} )); then
        echo "error: $(( bytes - {{ size_limit_bytes }} )) bytes above the limit" >&2
        exit 1
    fi
    if (( bytes > {{ size_aim_bytes }} )); then
        echo "note: $(( bytes - {{ size_aim_bytes }} )) bytes above the aim"
    fi

# Container images of the release's binaries, for both architectures, as docker archives (needs buildah).
[group('build')]
image: release
    #!/usr/bin/env bash
    set -euo pipefail
    # The list is pushed as release.yml pushes it, but into a folder.
    pushed='{{ release_files }}/build/pushed'
    rm -rf "$pushed"
    release/image '{{ release_files }}' "dir:$pushed" "$pushed.digest"
    echo "$(cut --delimiter : --fields 2 "$pushed.digest")  $pushed/manifest.json" | sha256sum --check
    for architecture in amd64 arm64; do
        archive='{{ release_files }}'/build/"{{ name }}-$architecture.tar"
        rm -f "$archive"
        buildah push --quiet "localhost/{{ name }}:$architecture" "docker-archive:$archive:localhost/{{ name }}:$architecture"
        ls -l "$archive"
    done

# Formatting, clippy, and the tests of the pure core and of the ingress list: half a minute after a changed line.
[group('test')]
quick:
    cargo fmt --all --check
    cargo clippy --locked --lib --test reconcile --test ingress -- -D warnings
    cargo test --locked --lib --test reconcile --test ingress

# All Rust tests: units, laws, integration on loopback.
[group('test')]
test:
    cargo test --workspace --locked

# All Rust tests, with every fault at every call and visitors at every instant.
[group('test')]
sweeps:
    SWEEPS=whole cargo test --workspace --locked

# The static binary under hostile clients and on a loaded machine: tests that need seconds of real time.
[group('test')]
real-time *only: static
    WEBHOOK_BINARY='{{ absolute_path(target_dir) }}/{{ static_target }}/release/{{ name }}' cargo test --locked --test real_time -- --test-threads=1 {{ only }}

# What a hostile neighbour can make the static binary take of the memory: it has to stay within 64 MiB.
[group('test')]
memory: (real-time 'memory::')

# E2E_REQUIRED=1 forbids skipping; WEBHOOK_BINARY and EMULATOR_BINARY name binaries to use instead of a debug build. The first
# time this compiles all of ExternalDNS and of Kubernetes' API server, some ten minutes on two cores.
[doc('The real ExternalDNS against the program and the emulator, with the museum (needs Go).')]
[group('test')]
e2e: (go-test 'e2e/edge') (go-test 'e2e' '-timeout 60m -parallel 32 -skip "^Test(MuseumLarge|Cloudflared)"')

# Without the binary this is skipped, unless CLOUDFLARED_REQUIRED is set. Cloudflare's edge is tests/e2e/edge.
[doc('What the real ExternalDNS publishes, visited through a real cloudflared, whose binary CLOUDFLARED names (needs Go).')]
[group('test')]
cloudflared: named-programs
    #!/usr/bin/env bash
    set -euo pipefail
    if [[ -n "${CLOUDFLARED:-}" ]]; then
        # What is required is not skipped either where Go is missing.
        export E2E_REQUIRED="${E2E_REQUIRED:-${CLOUDFLARED_REQUIRED:-}}"
        {{ just_executable() }} go-test e2e '-timeout 15m -parallel 4 -run ^TestCloudflared'
    elif [[ -n "${CLOUDFLARED_REQUIRED:-}" ]]; then
        echo 'error: CLOUDFLARED_REQUIRED is set, and CLOUDFLARED names no binary of cloudflared' >&2
        exit 1
    else
        echo 'SKIPPED: what needs a real cloudflared: CLOUDFLARED names no binary of it'
    fi

# Prints the rows of docs/museum.md; `just e2e` plays it too.
[doc('The museum of accidents: what happened to others, again with the real ExternalDNS (needs Go).')]
[group('test')]
museum: (go-test 'e2e' '-timeout 15m -parallel 16 -run ^TestMuseum$')

# LIVE_API_TOKEN, LIVE_ACCOUNT_ID and LIVE_ZONE name the account. It says what it would create; `--yes` does it.
[doc('The static binary on a zone of the real Cloudflare: it writes only what it created, and deletes that (needs musl-tools).')]
[group('test')]
live *arguments: static
    WEBHOOK_BINARY='{{ absolute_path(target_dir) }}/{{ static_target }}/release/{{ name }}' \
        cargo run --locked --package live -- run {{ arguments }}

# Delete what a killed `just live` left, once it is an hour old.
[group('test')]
live-clean *arguments:
    cargo run --locked --package live -- clean {{ arguments }}

# Thousands of hostnames take the static binary, or what WEBHOOK_BINARY names.
[doc('The museum of accidents: those of thousands of hostnames, and of an older ExternalDNS (needs Go and musl-tools).')]
[group('test')]
museum-large: named-programs static
    WEBHOOK_BINARY="${WEBHOOK_BINARY:-{{ absolute_path(target_dir) }}/{{ static_target }}/release/{{ name }}}" \
        {{ just_executable() }} go-test e2e '-timeout 50m -parallel 16 -run ^TestMuseumLarge$'

# On a real API server, and held to docs/versions.md; the first time each is built, two to four minutes on two cores.
[doc('What each version of ExternalDNS can do (`all`, `oldest`, `newest` or numbers as v0.18.0), as tried (needs Go).')]
[group('test')]
matrix *versions='all': (matrix-of versions '')
    EXTERNAL_DNS_VERSIONS='{{ versions }}' {{ just_executable() }} go-test e2e '-timeout 60m -parallel 16 -run ^TestEachVersion'

# Write what each version of ExternalDNS can do into docs/versions.md, as `matrix` tries it (needs Go).
[group('test')]
matrix-renew *versions='all': (matrix-of versions 'yes')

[private]
matrix-of versions renew:
    @[[ -n '{{ trim(versions) }}' ]] || { echo 'error: no version is named: `all`, `oldest`, `newest` or numbers as v0.18.0' >&2; exit 1; }
    @# Here too, since compiling what looks takes minutes.
    @for version in {{ versions }}; do \
        if ! [[ "$version" =~ ^(all|oldest|newest|v[0-9.]+)$ ]] || ! grep --quiet --fixed-strings "\"$version\"" tests/harness/build.go; then \
            echo "error: $version is none of the versions that are tried: see Versions in tests/harness/build.go" >&2; exit 1; \
        fi; \
    done
    EXTERNAL_DNS_VERSIONS='{{ versions }}' MATRIX_RENEW='{{ renew }}' \
        {{ just_executable() }} go-test cluster '-timeout 60m -parallel 8 -run ^TestMatrix'

# Write down loops of the real controller anew, which the tests' model of ExternalDNS is held to; `just e2e` compares them.
[group('test')]
loops-renew:
    LOOPS_RENEW=yes {{ just_executable() }} go-test e2e '-timeout 30m -run ^TestLoopsOfTheModel$'

# Documents' examples, deploy/ and the quick start on Kubernetes' own API server. CLOUDFLARED may name cloudflared's binary.
[group('test')]
cluster: (go-test 'cluster' '-timeout 60m -parallel 12')

# What the environment names is there. The tests would look only once everything else is built, and each from its folder.
[private]
named-programs:
    #!/usr/bin/env bash
    set -euo pipefail
    for variable in CLOUDFLARED {WEBHOOK,EMULATOR,EXTERNAL_DNS,KUBE_APISERVER,ETCD,KUBECTL,HELM}_BINARY; do
        file="${!variable:-}"
        if [[ -n "$file" && ! ("$file" == /* && -f "$file" && -x "$file") ]]; then
            echo "error: $variable is '$file', which is not the absolute path of a program" >&2
            exit 1
        fi
    done

# Tests in Go that need much of it; where there is no Go they are skipped, unless E2E_REQUIRED is set.
[private]
go-test folder arguments='': named-programs
    #!/usr/bin/env bash
    set -euo pipefail
    if ! command -v go >/dev/null; then
        if [[ -n "${E2E_REQUIRED:-}" ]]; then
            echo 'error: tests/{{ folder }} needs Go 1.26 or newer, and there is no go on the PATH' >&2
            exit 1
        fi
        echo 'SKIPPED: tests/{{ folder }}: it needs Go 1.26 or newer, and there is no go on the PATH'
        exit 0
    fi
    unformatted=$(gofmt -l 'tests/{{ folder }}' tests/harness)
    if [[ -n "$unformatted" ]]; then
        echo "error: not as gofmt has it: $unformatted" >&2
        exit 1
    fi
    cd 'tests/{{ folder }}'
    # Not of what is in cmd: that would compile it a second time.
    go vet . external-dns-cloudflare-tunnel-webhook/harness
    go test -count=1 -v {{ arguments }} .

# With a version of ExternalDNS, as v0.23.0, also the official chart within it, as that version's sources have it.
[doc('Make the settings of the chart and deploy/kustomize anew, and deploy/chart/charts of a version of ExternalDNS that is named (needs Go).')]
[group('build')]
chart-renew version='':
    cargo build --locked --bin {{ name }}
    cd tests/deploy && WEBHOOK_BINARY='{{ absolute_path(target_dir) }}/debug/{{ name }}' go run ./cmd/renew ../../deploy {{ version }}

# Tried with Kubernetes' types, ExternalDNS's flags and the built program.
[doc('The files of deploy/ with the real Helm, kustomize and compose, and the workflows (needs Go).')]
[group('test')]
deploy-files: named-programs
    #!/usr/bin/env bash
    set -euo pipefail
    if [[ -z "${WEBHOOK_BINARY:-}" ]]; then
        cargo build --locked --bin {{ name }}
        export WEBHOOK_BINARY='{{ absolute_path(target_dir) }}/debug/{{ name }}'
    fi
    cd tests/deploy
    unformatted=$(gofmt -l .)
    if [[ -n "$unformatted" ]]; then
        echo "error: not as gofmt has it: $unformatted" >&2
        exit 1
    fi
    go vet ./...
    go test -count=1 ./...
    go run github.com/rhysd/actionlint/cmd/actionlint@{{ actionlint_version }} ../../.github/workflows/*.yml

# The image as a cluster runs it, under the load of `figures` (needs root, buildah, crun and qemu-user-static).
[group('test')]
image-test: image
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --locked --workspace --bin cloudflare-emulator
    emulator='{{ target_dir }}/debug/cloudflare-emulator'
    built='{{ release_files }}/build'
    ((EUID == 0)) && as_root=() || as_root=(sudo)
    "${as_root[@]}" tests/image/run "docker-archive:$built/{{ name }}-amd64.tar" "$emulator"
    "${as_root[@]}" tests/image/run --described "docker-archive:$built/{{ name }}-arm64.tar" "$emulator"
    "${as_root[@]}" tests/image/run --emulated "$built/{{ arm_target }}/release/{{ name }}" "$emulator"

# The metrics of a run, the alert rules and the dashboard, as Prometheus' own tools see them (needs promtool and Python).
[group('test')]
promtool:
    #!/usr/bin/env bash
    set -euo pipefail
    tmp='{{ target_dir }}/tmp'
    rm -f "$tmp/metrics.txt"
    cargo test --locked --test it -- --exact metrics::a_scrape_shows_neither_a_secret_nor_a_hostname
    promtool check metrics <"$tmp/metrics.txt"
    promtool check rules deploy/chart/files/alerts.yaml
    promtool test rules tests/dashboards/alerts_test.yaml
    tests/dashboards/panels deploy/chart/files/dashboard.json "$tmp/metrics.txt" >"$tmp/panels_test.yaml"
    promtool test rules "$tmp/panels_test.yaml"

# The laws over other random worlds than those of `just test`, and very many: twenty minutes.
[group('test')]
laws cases='2560' seed=`echo $RANDOM`:
    @[[ '{{ cases }}' =~ ^[1-9][0-9]{0,8}$ && '{{ seed }}' =~ ^[0-9]+$ ]] || { echo 'error: it is written as in `just laws 2560 7`: how many worlds, and a seed' >&2; exit 1; }
    PROPTEST_RNG_SEED={{ seed }} PROPTEST_CASES={{ cases }} cargo test --release --locked --test ingress -- laws::
    PROPTEST_RNG_SEED={{ seed }} PROPTEST_CASES={{ cases }} cargo test --release --locked --test reconcile -- laws:: misspellings::
    PROPTEST_RNG_SEED={{ seed }} PROPTEST_CASES={{ cases }} cargo test --release --locked --test it -- visitors::laws:: access_laws::

# Whole worlds by a seed, for ten minutes; or one with all its steps and calls: `just simulate seed=7`.
[group('test')]
simulate *arguments=('from=' + `echo $((RANDOM * 32768 + RANDOM))` + ' seeds=1000000 seconds=600'):
    @[[ -n '{{ trim(arguments) }}' ]] || { echo 'error: an empty argument: it is written as in seed=7' >&2; exit 1; }
    @for argument in {{ arguments }}; do \
        case "$argument" in \
            *[!a-z]*=* | *=*[!0-9]* | *= | =*) echo "error: $argument: it is written as in seed=7" >&2; exit 1 ;; \
            *=*) ;; \
            *) echo "error: $argument: it is written as in seed=7" >&2; exit 1 ;; \
        esac; \
    done
    cargo test --locked --profile worlds --test simulator -- {{ arguments }}

# 10,000 loops of one instance, and 5,000 of one with `--registry=txt` and the namespace guard, take some six minutes.
[doc('Thousands of loops of one instance, whose memory must not grow, and twenty minutes of worlds by other seeds each time.')]
[group('test')]
worlds: (simulate 'growth=10000') (simulate 'from=' + `echo $((RANDOM * 32768 + RANDOM))` + ' seeds=1000000 seconds=1200')

# Take the mending of known defects out, one at a time, and see them found again (needs Python 3.11).
[group('test')]
[positional-arguments]
defects *arguments:
    tests/simulator/defects/run "$@"

# Break the code in thousands of ways, for a day; or some files, or `--shard 0/64` (needs cargo-mutants, Python 3.11).
[group('test')]
[positional-arguments]
mutants *arguments:
    tests/mutants/run "$@"

# Break the lines that differ from a revision, for ten minutes at most (needs cargo-mutants, Python 3.11).
[group('test')]
mutants-changed revision='HEAD~1':
    tests/mutants/run --since '{{ revision }}' --seconds 600

# Break what changed since yesterday or MUTANTS_SINCE, else a part of all by the date, for fifty minutes (needs cargo-mutants).
[group('test')]
mutants-of-the-day:
    #!/usr/bin/env bash
    set -euo pipefail
    since=${MUTANTS_SINCE:-$(git rev-list --max-count=1 --before='1 day ago' HEAD)}
    if [[ -n "$since" ]] && ! git diff --quiet "$since" -- src; then
        tests/mutants/run --since "$since" --seconds 3000
    else
        tests/mutants/run --shard $(($(date +%s) / 86400 % 64))/64 --seconds 3000
    fi

# Formatting and clippy, warnings denied; and whether the simulator's defects can still be put in.
[group('check')]
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    tests/simulator/defects/run --check

# Put the code into its one format.
[group('check')]
fmt:
    cargo fmt --all

# API documentation, warnings denied.
[group('check')]
doc:
    RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked

# The README's pictures: the terminal is drawn from what the demo prints, the parts are drawn by hand (needs Python).
[group('docs')]
pictures folder='docs/pictures':
    #!/usr/bin/env bash
    set -euo pipefail
    # Cut: cargo's own lines, a wait for Access, counts that differ from run to run, and repetitions.
    cargo run --locked --example demo 2>&1 | docs/pictures/terminal.py \
        --command 'cargo run --example demo' \
        --title 'What the demo prints' \
        --description 'A terminal in which the demo runs. An Ingress gets an annotation, and a rule and a record come. Two more Ingresses get an option of cloudflared and a login. An annotation with a mistake is refused, and a lost annotation opens nothing. At the end the Ingresses are deleted, their rules and records go, and what was made by hand is as it was.' \
        --cut '' 'The webhook, an emulator' \
        --cut 'WARN' '  + rule' \
        --cut '== The service' '== An annotation' \
        --cut '  - ingress/shop/api   external-dns.kubernetes.io/target' '' \
        --cut '  - rule    api' '  Ten minutes' \
        --wrap WARN \
        --output '{{ folder }}/demo.svg'
    docs/pictures/check.py docs/pictures/parts.svg '{{ folder }}/demo.svg'

# Check that the committed pictures are what the demo prints now (needs Python).
[group('docs')]
pictures-check:
    #!/usr/bin/env bash
    set -euo pipefail
    fresh=$(mktemp --directory)
    trap 'rm -rf "$fresh"' EXIT
    {{ just_executable() }} pictures "$fresh"
    if ! diff --unified docs/pictures/demo.svg "$fresh/demo.svg"; then
        echo 'error: docs/pictures/demo.svg is not what the demo prints now: run `just pictures`, look at it, and commit it' >&2
        exit 1
    fi

# Licences, sources and banned crates (needs cargo-deny). See deny.toml for what it cannot check here.
[group('check')]
deny:
    cargo deny --workspace check licenses sources
    # Without tests and their crates: what is linked into the program.
    cargo deny --exclude-dev check bans

# Advisories against the crates in use (needs cargo-deny, and GitHub for RustSec's database). CI runs it every week.
[group('check')]
advisories:
    cargo deny --workspace check advisories

# Size, start and memory, as in a table of docs/operations.md (needs musl-tools).
[group('measure')]
figures: static
    WEBHOOK_BINARY='{{ absolute_path(target_dir) }}/{{ static_target }}/release/{{ name }}' \
        cargo bench --locked --bench figures

# How far each loop gets with little memory and little of a core, as in a table of docs/operations.md (needs root).
[group('measure')]
scale *only: static
    WEBHOOK_BINARY='{{ absolute_path(target_dir) }}/{{ static_target }}/release/{{ name }}' \
        cargo bench --locked --bench scale -- {{ only }}

# It fails where a piece costs a tenth more, the binary has a hundredth more bytes, or cost grows faster than the work.
[doc('What the program decides, in instructions, and its size, beside the last release (needs valgrind).')]
[group('measure')]
cost: (cost-table cost_now)
    '{{ cost_binary }}' compare '{{ cost_of_release }}' '{{ cost_now }}'

# Write the cost table of the last release anew: with a release, and where more cost is meant (needs valgrind).
[group('measure')]
cost-renew: (cost-table cost_of_release)

# What two revisions decide, in instructions, and their sizes, each with its own pieces of work (needs valgrind).
[group('measure')]
cost-between before after='HEAD':
    #!/usr/bin/env bash
    set -euo pipefail
    for revision in '{{ before }}' '{{ after }}'; do
        git rev-parse --verify --quiet "$revision^{commit}" >/dev/null || { echo "error: there is no revision $revision" >&2; exit 1; }
    done
    export CARGO_TARGET_DIR='{{ absolute_path(target_dir) }}/cost-between'
    trees=$(mktemp --directory)
    finish() {
        for side in before after; do
            [[ ! -e "$trees/$side" ]] || git worktree remove --force "$trees/$side"
        done
        rm -rf "$trees"
    }
    trap finish EXIT
    if ! git diff --quiet '{{ before }}' '{{ after }}' -- tests/cost; then
        echo 'note: tests/cost differs between the two, so the work that they are measured by may differ too' >&2
    fi
    measure() {
        git worktree add --quiet --detach "$trees/$1" "$2"
        if [[ ! -d "$trees/$1/tests/cost" ]]; then
            echo "error: $2 is older than tests/cost" >&2
            return 1
        fi
        (cd "$trees/$1" && '{{ just_executable() }}' cost-table "$trees/$1.txt")
    }
    measure before '{{ before }}'
    measure after '{{ after }}'
    "$CARGO_TARGET_DIR/{{ static_target }}/release/cost" compare "$trees/before.txt" "$trees/after.txt"

[private]
cost-table file: static
    # Without its symbols callgrind would not know what to count.
    cargo rustc --release --locked --target {{ static_target }} --package cost --bin cost -- -C strip=none
    '{{ cost_binary }}' measure '{{ static_binary }}' >'{{ file }}.new'
    mv '{{ file }}.new' '{{ file }}'

# Take the newest patches of every crate, before a release, and run what would notice one that does not fit.
[group('release')]
renew:
    cargo update
    {{ just_executable() }} lint test deny size e2e

# Archives, SBOMs and sums of both targets, in target/release-files (needs cargo-auditable, cargo-cyclonedx, Python).
[group('release')]
release:
    release/build '{{ release_files }}'

# Build the release twice, in two folders: the same bytes, or it fails (needs what `release` needs).
[group('release')]
release-check:
    #!/usr/bin/env bash
    set -euo pipefail
    commit=$(git rev-parse HEAD)
    export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
    again=$(mktemp --directory)
    trap 'rm -rf "$again"' EXIT
    mkdir "$again/source"
    git archive "$commit" | tar --extract --directory "$again/source"
    release/build '{{ release_files }}'
    "$again/source/release/build" "$again/release"
    release/check '{{ release_files }}' "$again/release"
